// Package console is the console: pages for people, served at /ui/ from files inside the program. The pages read and
// change alarms through the HTTP interface alone, by the same requests as curl. So roles, conditions and limits hold
// for the console as for any other client, and no response of this package has data of an application.
//
// The files are in assets: one HTML page, one style sheet and small ES modules. There is no framework, no build step
// and no request to another host. app.js chooses the module of a page (page-*.js) by the parameter view of the URL.
//
// # Invariants
//
//  1. All URLs in the files are relative to the page, so the console works below any prefix that a proxy adds.
//  2. The content security policy allows only files of this server: no inline script, no inline style, no frame around
//     the page.
//  3. Data enters the page as text (dom.js), never as HTML.
//  4. The URL holds the state of a page: its filter, its position and its time zone. A copied URL shows the same.
//  5. format.js formats all numbers and times. A page has one time zone.
//  6. An action on one alarm, or on selected ones, sends the generation that the person saw (If-Match), so that a later
//     set refuses it. It needs a confirmation that names the alarm, or the filter and the count. Above 1,000 alarms a
//     person types the name of the application.
//  7. A token is in the memory of the page alone: no cookie and no storage has it. Where the browser keeps secure
//     cookies, a session replaces it at once. Scripts cannot read the session.
//  8. A page asks the server again only while it is visible and not paused, and never after 401.
//
// # Live rings
//
// The page of live rings reads a sample of each node's tries (GET /v1/rings/recent). It does not listen to the stream of
// an application: its subscribers share the rings, so a console would take rings from the application.
//
// # Charts
//
// chart.js draws in SVG. A library that draws on a canvas, such as uPlot, is quicker with many points; a chart here has
// at most 1,440. The elements of an SVG have the colours of the style sheet, and the keyboard and screen readers reach
// each value.
//
// # Failures
//
//	failure                              effect                                              recovery
//	server does not respond              the page says so and keeps what it shows            it asks again, each time later, up to a minute
//	response 401                         the page asks for a token, and asks the server no more  a person
//	alarm changed since it was read      412: the page shows the alarm as it is now          the person decides again
//	action on many alarms is interrupted the page says how many are done                     the person repeats the action
//	the program is replaced              the browser compares the entity tag of each file    none needed
package console
