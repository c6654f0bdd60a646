// Shows JSON as it was sent. JSON.parse would round large numbers, and drop members that come twice.

const tokens = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

const opens = token => token === '{' || token === '[';
const closes = token => token === '}' || token === ']';

/** Returns the text of a member of a JSON object, undefined if there is none. */
export function memberText(json, name) {
  let depth = 0, key = '', from = -1;
  for (const {0: token, index} of json.matchAll(tokens)) {
    if (closes(token)) depth--;
    if (from >= 0 && (depth === 1 && token === ',' || depth === 0)) return json.slice(from, index).trim();
    if (opens(token)) depth++;
    if (depth !== 1) continue;
    if (token === ':' && key === name) from = index + 1;
    else if (token.startsWith('"')) key = JSON.parse(token);
  }
  return undefined;
}

/** Lays JSON out over lines. Its tokens stay as they are. */
export function layOut(json) {
  const all = json.match(tokens) || [];
  let out = '', depth = 0;
  const line = () => `\n${'  '.repeat(depth)}`;
  all.forEach((token, i) => {
    if (closes(token)) {
      depth--;
      out += opens(all[i - 1]) ? token : line() + token;
    } else if (opens(token)) {
      depth++;
      out += closes(all[i + 1]) ? token : token + line();
    } else if (token === ',') out += token + line();
    else out += token === ':' ? ': ' : token;
  });
  return out;
}
