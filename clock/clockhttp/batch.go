package clockhttp

import (
	"context"
	"fmt"
	"mime"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

const ndjsonType = "application/x-ndjson"

// batch takes many sets and cancels at once. The body's media type decides between a JSON batch and an NDJSON stream.
func (s *Server) batch(c echo.Context) error {
	app, err := applicationOf(c)
	if err != nil {
		return err
	}
	if err := noCondition(c.Request().Header, `a batch takes no %s; give an item "if": "absent", or set it alone`); err != nil {
		return err
	}
	given := c.Request().Header.Get(echo.HeaderContentType)
	switch mediaType, _, _ := mime.ParseMediaType(given); mediaType {
	case echo.MIMEApplicationJSON:
		return s.jsonBatch(c, app)
	case ndjsonType:
		return s.ndjson(c, app)
	}
	return &front.Problem{
		Status: http.StatusUnsupportedMediaType, Code: codeUnsupportedMediaType, Field: echo.HeaderContentType,
		Detail: fmt.Sprintf("a batch is application/json (one document) or application/x-ndjson (a line each), not %q",
			given),
	}
}

// jsonBatch submits every item in order, sets first, and responds when all items are done.
func (s *Server) jsonBatch(c echo.Context, app string) error {
	ctx, cancel := opContext(c)
	defer cancel()
	items, err := s.submitBatch(ctx, c, app)
	if err != nil {
		return err
	}
	results := make([]result, len(items))
	if p := awaitResults(ctx, items, results); p != nil {
		return p
	}
	b := append(make([]byte, 0, 96*len(items)+32), `{"results":[`...)
	for i := range results {
		if i > 0 {
			b = append(b, ',')
		}
		b = results[i].append(b, 0)
		s.front.CountItem("json", results[i].status)
		if p := results[i].problem; p != nil {
			s.front.Note(c.Request(), p)
		}
	}
	return s.respondJSON(c, http.StatusOK, append(b, "]}"...))
}

// awaitResults fills in the results, in order. It waits as long as clock.AwaitAll. If any item failed for the server's
// reasons, it returns one problem for the whole batch: the worst problem of the items, with the longest Retry-After.
// Its code is unconfirmed if some items were applied.
func awaitResults(ctx context.Context, items []item, results []result) *front.Problem {
	pending := make([]*clock.Pending, len(items))
	for i := range items {
		pending[i] = items[i].pending
	}
	clock.AwaitAll(ctx, pending)
	problems := make([]*front.Problem, len(items))
	for i := range items {
		d, err := items[i].decided()
		results[i] = resultOf(&items[i], d, err)
		problems[i] = results[i].problem
	}
	return front.WholeProblem(problems)
}

// submitBatch reads the body and submits its items. It submits no item if the body as a whole is wrong.
func (s *Server) submitBatch(ctx context.Context, c echo.Context, app string) ([]item, error) {
	b, err := s.readBody(c, BatchBytes, front.BatchBodies)
	if err != nil {
		return nil, err
	}
	defer b.release()
	if err := checkJSON(b.bytes); err != nil {
		return nil, err
	}
	lists, err := cutBatch(b.bytes)
	if err != nil {
		return nil, err
	}
	count := len(lists.sets) + len(lists.cancels)
	if err := front.Spend(c.Request(), count-1); err != nil {
		return nil, err
	}
	items := make([]item, 0, count)
	trace := clock.ParseTraceparent(c.Request().Header["Traceparent"])
	for _, raw := range lists.sets {
		items = append(items, s.submitSet(ctx, raw, app, trace))
	}
	for _, raw := range lists.cancels {
		items = append(items, s.submitCancel(ctx, raw, app))
	}
	return items, nil
}

func (s *Server) submitSet(ctx context.Context, raw []byte, app, trace string) item {
	decoded, err := decodeValidSet(raw, itemBody)
	if err != nil {
		return refusedItem(decoded.set.BusinessID, err)
	}
	set := &decoded.set
	set.Application, set.Traceparent = app, trace
	return item{businessID: set.BusinessID, pending: s.submitItem(ctx, clock.Op{Set: set})}
}

func (s *Server) submitCancel(ctx context.Context, raw []byte, app string) item {
	if raw[0] != '"' {
		return refusedItem("", wrongType("business_id", "a string: cancel is a list of business ids", raw))
	}
	var id string
	if err := decodeString(raw, "business_id", &id); err != nil {
		return refusedItem("", err)
	}
	key := clock.Key{Application: app, BusinessID: id}
	if err := key.Validate(); err != nil {
		return refusedItem(id, err)
	}
	return item{businessID: id, pending: s.submitItem(ctx, clock.Op{Cancel: &clock.Cancel{Key: key, Brief: true}})}
}

// submitItem submits an item of a JSON batch. If a batch names one key more often than the queue allows, this item and
// all later items wait here.
func (s *Server) submitItem(ctx context.Context, op clock.Op) *clock.Pending {
	op.WithoutPayload = true
	return clock.SubmitPatiently(ctx, func() *clock.Pending { return s.alarms.Submit(ctx, op) },
		clock.CodeKeyOverloaded)
}

// batchLists holds the items of a batch as the client wrote them.
type batchLists struct {
	sets, cancels [][]byte
}

// cutBatch cuts a batch into its items.
func cutBatch(body []byte) (batchLists, error) {
	var lists batchLists
	ms, ok := objectMembers(body)
	if !ok {
		return lists, clock.Invalid(clock.CodeInvalidValue, "",
			`a batch must be an object like {"set": [...], "cancel": [...]}, not `+kindOf(body))
	}
	_, err := ms.each("", lists.take)
	return lists, err
}

func (l *batchLists) take(name string, value []byte) error {
	into := &l.sets
	switch name {
	case "set":
	case "cancel":
		into = &l.cancels
	default:
		return unknownField("", name, []string{"set", "cancel"})
	}
	if isNull(value) {
		return nil
	}
	es, ok := arrayElements(value)
	if !ok {
		return wrongType(name, "an array", value)
	}
	for raw, more := es.next(); more; raw, more = es.next() {
		if len(l.sets)+len(l.cancels) == BatchItems {
			return &front.Problem{
				Status: http.StatusRequestEntityTooLarge, Code: clock.CodeBatchTooLarge, Field: name,
				Detail: fmt.Sprintf("a batch has at most %d items; send several, or stream them as application/x-ndjson", BatchItems),
			}
		}
		*into = append(*into, raw)
	}
	return nil
}
