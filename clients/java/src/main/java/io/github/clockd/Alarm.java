package io.github.clockd;

import com.google.gson.JsonElement;
import java.time.Duration;
import java.time.Instant;
import java.util.List;

/**
 * An alarm. A time that it does not have is null.
 *
 * @param application its application
 * @param businessId its id in the application
 * @param state scheduled, ringing, rung, expired, dead, cancelled or paused
 * @param generation version: 1 at creation, 1 more with each set that changes the alarm
 * @param ringAt time to ring; of a repeating alarm, of its current occurrence
 * @param latestRingAt last time to ring; null: however late
 * @param nextTryTime time of the next ring or try
 * @param payload what it delivers
 * @param contentType type of the payload
 * @param ackTimeout time for an answer to a ring; null: rings need no answer
 * @param retryTimes failed tries
 * @param ringNo confirmed rings of this generation
 * @param inDoubt whether a ring was handed over, and its outcome is unknown
 * @param lastError null: none
 * @param rungAt time of its last ring
 * @param answer last accepted answer of this generation: ack, release or bury; null: none
 * @param answeredBy name of the answering person or program; null: not known
 * @param occurrence current occurrence; null without a rule
 * @param createdAt time of its first set
 * @param updatedAt time of its last change
 * @param finishedAt time of its end
 * @param attempts failed tries and refused rings, newest first; only {@link Client#get} returns
 *     them
 * @param blockers reasons why it does not ring although it is due; only reads return them
 * @param raw the alarm in JSON, which has further members
 */
public record Alarm(
    String application,
    String businessId,
    String state,
    long generation,
    Instant ringAt,
    Instant latestRingAt,
    Instant nextTryTime,
    Payload payload,
    String contentType,
    Duration ackTimeout,
    long retryTimes,
    long ringNo,
    boolean inDoubt,
    String lastError,
    Instant rungAt,
    String answer,
    String answeredBy,
    Occurrence occurrence,
    Instant createdAt,
    Instant updatedAt,
    Instant finishedAt,
    List<Attempt> attempts,
    List<Blocker> blockers,
    String raw) {

  /** Reads an alarm of the service. It ignores members that it does not know. */
  static Alarm read(JsonElement element) {
    var m = Json.object(element, "business_id", "state");
    return new Alarm(
        m.text("application"),
        m.text("business_id"),
        m.text("state"),
        m.number("generation"),
        m.instant("ring_at"),
        m.instant("latest_ring_at"),
        m.instant("next_try_time"),
        m.payload(),
        m.text("content_type"),
        m.duration("ack_timeout"),
        m.number("retry_times"),
        m.number("ring_no"),
        m.truth("in_doubt"),
        m.textOrNull("last_error"),
        m.instant("rung_at"),
        m.textOrNull("answer"),
        m.textOrNull("answered_by"),
        Occurrence.read(m.element("occurrence")),
        m.instant("created_at"),
        m.instant("updated_at"),
        m.instant("finished_at"),
        m.list("attempts", Attempt::read),
        m.list("blockers", Blocker::read),
        m.raw());
  }
}
