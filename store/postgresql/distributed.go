package postgresql

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/citussqlc"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// How a statement of queries becomes a statement for a distributed database. Citus runs a statement on one server as a
// whole if it names the shards of each distributed table in it. So a mark in the text of the statement becomes a
// condition on the shards, and the array of the shards becomes the last argument:
//
//	/* in a.shard */                     AND a.shard = ANY($9::smallint[])
//	SELECT unnest($1::smallint[])        SELECT g.shard FROM gate g WHERE g.shard = ANY($1::smallint[])
//	  AS shard
//
// On one server the marks are comments. Statements that need more than a condition are in queries/citus.
var (
	shardMark     = regexp.MustCompile(`/\* in ((?:\w+\.)?shard) \*/`)
	shardList     = regexp.MustCompile(`SELECT unnest\((\$\d+::smallint\[\])\) AS shard\b`)
	parameterMark = regexp.MustCompile(`\$(\d+)`)
)

// distributedTexts holds the distributed text of each marked statement, and "" for statements without marks.
var distributedTexts sync.Map

// inShards returns the statement and its arguments for rows of the shards. A statement without marks stays as it is.
func inShards(sql string, args []any, shards []int64) (string, []any) {
	cached, known := distributedTexts.Load(sql)
	if !known {
		cached, _ = distributedTexts.LoadOrStore(sql, distributedText(sql))
	}
	text, _ := cached.(string)
	if text == "" {
		return sql, args
	}
	return text, append(args[:len(args):len(args)], shards)
}

// distributedText returns the text with conditions in the place of its marks; "" if it has none.
func distributedText(sql string) string {
	if !shardMark.MatchString(sql) {
		return ""
	}
	last := 0
	for _, match := range parameterMark.FindAllStringSubmatch(sql, -1) {
		number, _ := strconv.Atoi(match[1])
		last = max(last, number)
	}
	sql = shardMark.ReplaceAllString(sql, fmt.Sprintf("AND $1 = ANY($$%d::smallint[])", last+1))
	return shardList.ReplaceAllString(sql, "SELECT g.shard FROM gate g WHERE g.shard = ANY($1)")
}

// placedDB runs statements on rows of its shards.
type placedDB struct {
	db     dbsqlc.DBTX
	shards []int64
}

// Exec runs a statement.
func (p placedDB) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	sql, args = inShards(sql, args, p.shards)
	return p.db.Exec(ctx, sql, args...)
}

// Query runs a statement that returns rows.
func (p placedDB) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	sql, args = inShards(sql, args, p.shards)
	return p.db.Query(ctx, sql, args...)
}

// QueryRow runs a statement that returns one row.
func (p placedDB) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	sql, args = inShards(sql, args, p.shards)
	return p.db.QueryRow(ctx, sql, args...)
}

// distribution says where the shards of a distributed database are.
type distribution struct {
	shards      int       // shard count
	placements  [][]int64 // shards of each placement
	placementOf []int     // number of each shard's placement
}

// ofPlacedIDs returns the shards of the placement that all the ids have; nil on one server.
func (d *Driver) ofPlacedIDs(ids []int64) []int64 {
	if p := d.placed.Load(); p != nil && len(ids) > 0 {
		return p.placements[p.placementOf[engine.ShardOfID(ids[0], p.shards)]]
	}
	return nil
}

// ofKey returns the shards of the placement of a key; nil on one server.
func (d *Driver) ofKey(k clock.Key) []int64 {
	if p := d.placed.Load(); p != nil {
		return p.placements[p.placementOf[k.Shard(p.shards)]]
	}
	return nil
}

// ofPlacement returns the shards of a placement; nil on one server.
func (d *Driver) ofPlacement(number int) []int64 {
	if p := d.placed.Load(); p != nil {
		return p.placements[number]
	}
	return nil
}

// ofIDs returns the shards of ids, which may have several placements; nil on one server.
func (d *Driver) ofIDs(ids []int64) []int64 {
	p := d.placed.Load()
	if p == nil {
		return nil
	}
	return engine.Column(ids, func(id *int64) int64 { return int64(engine.ShardOfID(*id, p.shards)) })
}

// in returns db for statements on rows of the shards; db itself on one server.
func in(shards []int64, db dbsqlc.DBTX) dbsqlc.DBTX {
	if shards == nil {
		return db
	}
	return placedDB{db, shards}
}

// inAny returns db for a read of the shards, which may have several placements; db itself on one server.
func (d *Driver) inAny(shards []int64, db dbsqlc.DBTX) dbsqlc.DBTX {
	if d.placed.Load() == nil {
		return db
	}
	return placedDB{db, shards}
}

// distributedSettings returns the settings of every session of a distributed database, beside sessionSettings.
func distributedSettings() map[string]string {
	return map[string]string{
		"citus.propagate_set_commands":          "local",      // SET LOCAL lock_timeout reaches the workers
		"citus.max_adaptive_executor_pool_size": "1",          // otherwise a slow statement on several shards opens several connections to a worker
		"citus.multi_shard_modify_mode":         "sequential", // likewise
	}
}

// withDistributed adds the settings of distributed databases, if the database is one.
func (c Config) withDistributed(settings map[string]string) map[string]string {
	if c.Distributed {
		maps.Copy(settings, distributedSettings())
	}
	return settings
}

// blockNumbers is how many numbers a block has.
const blockNumbers = 4096

// idBlock gives out the numbers that the ids of new alarms are made of. Each process reserves blocks of numbers in the
// database, so no number is given twice.
type idBlock struct {
	mu         sync.Mutex
	next, left int64 // the next number, and how many numbers of the block are left
}

// take returns n numbers in ascending order. reserve reserves a block.
func (b *idBlock) take(
	ctx context.Context, n int, reserve func(ctx context.Context) (block int64, err error),
) ([]int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	numbers := make([]int64, n)
	for i := range numbers {
		if b.left == 0 {
			block, err := reserve(ctx)
			if err != nil {
				return nil, fmt.Errorf("reserve numbers: %w", err)
			}
			b.next, b.left = block*blockNumbers, blockNumbers
		}
		numbers[i] = b.next
		b.next, b.left = b.next+1, b.left-1
	}
	return numbers, nil
}

// TakeNumbers takes numbers of the present block, and of further blocks (NextIDBlock).
func (d *Driver) TakeNumbers(ctx context.Context, count int) ([]int64, error) {
	return d.ids.take(ctx, count,
		func(ctx context.Context) (int64, error) { return d.distributed.NextIDBlock(ctx, d.pool) })
}

// attemptBits is the number of low bits of an attempt's id that do not tell its time.
const attemptBits = 20

// attemptIDs returns ids for attempts of a distributed database, given their times in milliseconds. They are unique for
// each alarm, unless two processes add attempts to one alarm in the same millisecond, and one of 2^20 such pairs
// collides. Then the second transaction runs again.
func (d *Driver) attemptIDs(times []int64) []int64 {
	ids := make([]int64, len(times))
	for i, ms := range times {
		ids[i] = ms<<attemptBits | int64(d.attempts.Add(1)%(1<<attemptBits))
	}
	return ids
}

// distributedAttempts returns the parameters of InsertAttempts in a distributed database.
func (d *Driver) distributedAttempts(p *dbsqlc.InsertAttemptsParams) citussqlc.InsertAttemptsParams {
	return citussqlc.InsertAttemptsParams{
		Ids: d.attemptIDs(p.AttemptTimes), AlarmIds: p.AlarmIds, AttemptGenerations: p.AttemptGenerations,
		AttemptRingNos:  p.AttemptRingNos,
		AttemptClaimIds: p.AttemptClaimIds, AttemptTimes: p.AttemptTimes, Outcomes: p.Outcomes, Errors: p.Errors,
		AnsweredBys: p.AnsweredBys,
	}
}
