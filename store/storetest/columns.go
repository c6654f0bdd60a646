package storetest

// Column is a column that all three engines must define alike.
type Column struct {
	Name     string
	Nullable bool
}

// tables holds the columns of every table, in the order of their definition.
var tables = map[string][]Column{
	"alarm": {
		{"id", false},
		{"application", false},
		{"business_id", false},
		{"shard", false},
		{"state", false},
		{"generation", false},
		{"payload", false},
		{"payload_kind", false},
		{"content_type", false},
		{"target_ring_at", false},
		{"latest_ring_at", true},
		{"next_try_time", true},
		{"ring_no", false},
		{"retry_times", false},
		{"last_error", false},
		{"in_doubt", false},
		{"retry_policy", false},
		{"ack_timeout", false},
		{"max_rings", false},
		{"priority", false},
		{"traceparent", false},
		{"claim_id", false},
		{"rung_at", true},
		{"create_time", false},
		{"update_time", false},
		{"finished_at", true},
		{"answer", false},
		{"answered_by", false},
		{"answered_at", true},
		{"delivery", false},
		{"due_rank", false},
		{"doubt_target", false},
		{"repeat_rule", false},
		{"repeat_state", false},
		{"past_generations", false},
		{"destination", false},
		{"receiver", false},
	},
	"zoned_alarm": {
		{"alarm_id", false},
		{"time_zone", false},
	},
	"time_zone_data": {
		{"only_row", false},
		{"revision", false},
		{"document", false},
	},
	"bulk_job": {
		{"id", false},
		{"created_at", false},
		{"ended_at", true},
		{"owner", false},
		{"lease_until", false},
		{"revision", false},
		{"document", false},
	},
	"node_step": {
		{"step_seconds", false},
		{"begun_at", false},
		{"incarnation", false},
		{"figures", false},
	},
	"application_manifest": {
		{"application", false},
		{"version", false},
		{"document", false},
		{"changed_at", false},
		{"changed_by", false},
	},
	"application_sighting": {
		{"application", false},
		{"seen_at", false},
	},
	"ring_attempt": {
		{"id", false},
		{"alarm_id", false},
		{"generation", false},
		{"ring_no", false},
		{"claim_id", false},
		{"attempt_time", false},
		{"outcome", false},
		{"error", false},
		{"answered_by", false},
	},
	"shard": {
		{"shard", false},
		{"owner", false},
		{"incarnation", false},
		{"epoch", false},
		{"expires", false},
	},
	"build_level": {
		{"only_row", false},
		{"oldest", false},
	},
	"application_setting": {
		{"application", false},
		{"version", false},
		{"document", false},
		{"changed_at", false},
		{"changed_by", false},
	},
	"application_setting_history": {
		{"application", false},
		{"version", false},
		{"document", false},
		{"changed_at", false},
		{"changed_by", false},
	},
	"application_setting_counter": {
		{"only_row", false},
		{"changes", false},
	},
	"access_token": {
		{"id", false},
		{"name", false},
		{"role", false},
		{"applications", false},
		{"secret", false},
		{"old_secret", false},
		{"old_secret_until", true},
		{"created_at", false},
		{"created_by", false},
		{"expires_at", true},
		{"revoked_at", true},
		{"last_used_at", true},
		{"parent_id", false},
		{"parent_secret", false},
		{"session_secret", false},
	},
	"audit": {
		{"id", false},
		{"done_at", false},
		{"actor", false},
		{"token", false},
		{"origin", false},
		{"action", false},
		{"application", false},
		{"subject", false},
		{"state_before", false},
		{"state_after", false},
		{"request_id", false},
	},
	"access_token_counter": {
		{"only_row", false},
		{"changes", false},
	},
	"node": {
		{"incarnation", false},
		{"name", false},
		{"address", false},
		{"version", false},
		{"started", false},
		{"expires", false},
		{"applications", false},
		{"lacks", false},
		{"settings", false},
		{"secret_keys", false},
	},
}

// views holds the columns of every view, in order. Their values follow the same rules in every engine.
//
//   - Instants are UTC timestamps to the millisecond, whatever the session's time zone: DATETIME(3), timestamp(3)
//     without time zone, and in SQLite text like "2026-11-21 18:30:00.123".
//   - state, delivery, answer and last_outcome are names. in_doubt, node_known and is_current are 0 or 1.
//   - target is the name of the target that the alarm names, NULL if it names none.
//   - The answer columns are NULL if this generation has no answer.
//   - lateness_ms is rung_at - target_ring_at, and NULL if rung_at is. Of a repeating alarm it is the lateness of the
//     latest occurrence.
//   - The columns of occurrences are NULL for an alarm that rings once.
//   - attempts counts the rows of ring_attempt. last_outcome and last_attempt_time belong to the newest of them, and
//     are NULL without any.
//   - A free shard has NULL as owner, incarnation and expires. shards counts the leases of the node.
var views = map[string][]string{
	"alarm_report": {
		"id", "application", "business_id", "shard", "state", "generation", "target_ring_at", "latest_ring_at",
		"next_try_time",
		"lateness_ms", "ring_no", "retry_times", "last_error", "in_doubt", "priority", "delivery", "payload_bytes",
		"rung_at",
		"answer", "answered_by", "answered_at", "create_time", "update_time", "finished_at", "target",
		"repeat_rule", "occurrence", "occurrence_at", "next_occurrence_at", "occurrences_rung", "occurrences_missed",
		"occurrences_skipped",
		"occurrences_failed", "lateness_max_ms", "lateness_sum_ms", "occurrences_outside_window", "previous_occurrence_at",
	},
	"retry_report": {
		"id", "application", "business_id", "state", "generation", "target_ring_at", "next_try_time", "retry_times",
		"in_doubt",
		"last_error", "attempts", "last_outcome", "last_attempt_time", "ring_no", "answer", "answered_by",
		"answered_at",
	},
	"application_setting_report": {"application", "version", "is_current", "document", "changed_at", "changed_by"},
	"audit_report": {
		"id", "done_at", "actor", "token", "origin", "action", "application", "subject", "state_before", "state_after",
		"request_id",
	},
	"access_token_report": {
		"id", "name", "role", "applications", "created_at", "created_by", "expires_at", "revoked_at", "last_used_at",
		"old_secret_until", "parent_id",
	},
	"shard_report": {"shard", "owner", "incarnation", "epoch", "expires", "node_known"},
	"node_report": {"incarnation", "name", "address", "version", "started", "expires", "shards", "applications",
		"lacks", "settings", "secret_keys"},
}
