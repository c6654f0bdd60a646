package storetest

// cases lists the tests, what everything rests on first.
func cases() []testCase {
	return []testCase{
		{name: "migrate", engine: testMigrate},
		{name: "check", engine: testCheck},
		{name: "time", plain: testTime},
		{name: "round trip", plain: testRoundTrip},
		{name: "keys", plain: testKeys},
		{name: "not found", plain: testNotFound},
		{name: "keys of ids", plain: testKeysOf},
		{name: "claim", claims: testClaim},
		{name: "claim bytes", claims: testClaimBytes},
		{name: "latest", claims: testLatest},
		{name: "acknowledge", claims: testAcknowledge},
		{name: "ring again fails", claims: testRingAgainFails},
		{name: "settle", claims: testSettle},
		{name: "attempts", claims: testAttempts},
		{name: "release", claims: testRelease},
		{name: "locked rows", claims: testLockedRows},
		{name: "claim race", claims: testClaimRace},
		{name: "takeover", leases: testTakeover},
		{name: "late release", leases: testLateRelease},
		{name: "crash", claims: testCrash},
		{name: "model", claims: testModel},
		{name: "decisions", claims: testDecisions},
		{name: "group", plain: testGroup},
		{name: "groups at once", plain: testGroupAtOnce},
		{name: "one key at once", plain: testOneKeyAtOnce},
		{name: "large group", plain: testLargeGroup},
		{name: "held row", claims: testHeldRow},
		{name: "wait ends", claims: testWaitEnds},
		{name: "due", plain: testDue},
		{name: "due edges", plain: testDueEdges},
		{name: "overdue", plain: testOverdue},
		{name: "expire", plain: testExpire},
		{name: "expire beside a claim", claims: testExpireHeld},
		{name: "purge", plain: testPurge},
		{name: "purge beside a lock", needs: locksRows, plain: testPurgeLocked},
		{name: "no id twice", plain: testNoReuse},
		{name: "list", plain: testList},
		{name: "list filters", plain: testListFilters},
		{name: "attend", plain: testAttend},
		{name: "take", plain: testTake},
		{name: "take race", plain: testTakeRace},
		{name: "take beside a lock", needs: locksRows, plain: testTakeLocked},
		{name: "yield", plain: testYield},
		{name: "leave", plain: testLeave},
		{name: "attend at once", plain: testAttendAtOnce},
		{name: "shard and node report", plain: testShardReport},
		{name: "upkeep beside requests", needs: locksRows, plain: testUpkeep},
		{name: "cancelled", plain: testCancelled},
		{name: "settle cancelled", claims: testSettleCancelled},
		{name: "closed", plain: testClosed},
		{name: "killed", needs: hasServer, plain: testKilled},
		{name: "unreachable", engine: testUnreachable},
		{name: "no deadline", engine: testTimeout},
		{name: "alarm report", plain: testAlarmReport},
		{name: "retry report", plain: testRetryReport},
		{name: "plans", engine: testPlans},
	}
}

// locksRows tells engines whose transactions hold single rows.
func locksRows(s *suite) bool { return s.holds }

// hasServer tells engines whose connections can be cut.
func hasServer(s *suite) bool { return s.db.Kill != nil }
