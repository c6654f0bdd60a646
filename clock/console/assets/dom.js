// Builds elements. Data enters the page only here, as text.

const svgNamespace = 'http://www.w3.org/2000/svg';

/** Returns an element. A function among the attributes is a listener: {click: f}. Children are nodes, texts, lists of them, or nothing. */
export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** Returns an element of SVG. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(svgNamespace, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child instanceof Node) element.append(child);
    else if (child !== null && child !== undefined && child !== false) element.append(String(child));
  }
}

/** Replaces the content of an element. */
export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/** Returns a table. Each column has a head, and a cell(row) that returns the content. A column may have the class "number". */
export function table(caption, columns, rows) {
  const region = el('div', {class: 'scroll', role: 'region', 'aria-label': caption},
    el('table', {}, el('caption', {class: 'hidden'}, caption),
      el('thead', {}, el('tr', {}, columns.map(c => el('th', {scope: 'col', class: c.class}, c.head)))),
      el('tbody', {}, rows.map(row => el('tr', {}, columns.map((c, i) => el(i === 0 && !c.control ? 'th' : 'td', {class: c.class, scope: i === 0 && !c.control ? 'row' : null}, c.cell(row))))))));
  new ResizeObserver(() => { // a table that fits needs no stop of its own
    if (region.scrollWidth > region.clientWidth) region.setAttribute('tabindex', '0');
    else region.removeAttribute('tabindex');
  }).observe(region);
  return region;
}

/** Returns an empty state: what is missing, and what to do. */
export function empty(what, ...todo) {
  return el('div', {class: 'empty'}, el('p', {class: 'what'}, what), todo.filter(Boolean).map(t => el('p', {}, t)));
}

/** Returns a place for data under way. */
export function pending() { return el('div', {class: 'body'}, el('p', {class: 'loading'}, 'Reading…')); }

/** Returns a labelled section. */
export function section(heading, ...children) {
  return el('section', {class: 'card'}, el('h2', {}, heading), children);
}
