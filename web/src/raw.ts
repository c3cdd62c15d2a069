// Payloads and results are shown as the bytes they are: JSON.parse would round
// 12345678901234567890, and an operator would look for a number that was never sent.

/** Ends of the JSON value that begins at i (white space before it skipped). */
function valueAt(text: string, i: number): [number, number] {
  while (/\s/.test(text[i] ?? '')) i++;
  const from = i;
  let depth = 0;
  for (; i < text.length; i++) {
    const c = text[i]!;
    if (c === '"') {
      for (i++; i < text.length && text[i] !== '"'; i++) if (text[i] === '\\') i++;
      if (depth === 0) return [from, i + 1];
    } else if (c === '{' || c === '[') depth++;
    else if (c === '}' || c === ']') {
      if (depth === 0) return [from, i];
      if (--depth === 0) return [from, i + 1];
    } else if (depth === 0 && (c === ',' || /\s/.test(c))) return [from, i];
  }
  return [from, i];
}

/** The raw text of some members of a JSON object, by name. */
export function members(text: string, names: string[]): Record<string, string> {
  const out: Record<string, string> = {};
  let i = text.indexOf('{') + 1;
  while (i > 0 && i < text.length) {
    while (/[\s,]/.test(text[i] ?? '')) i++;
    if (text[i] !== '"') break;
    const [keyFrom, keyTo] = valueAt(text, i);
    const key = JSON.parse(text.slice(keyFrom, keyTo)) as string;
    const [from, to] = valueAt(text, text.indexOf(':', keyTo) + 1);
    if (names.includes(key)) out[key] = text.slice(from, to);
    i = to;
  }
  return out;
}

/** Lays raw JSON out in lines; no token of it changes. */
export function layOut(text: string): string {
  let out = '';
  let depth = 0;
  const line = () => '\n' + '  '.repeat(depth);
  for (let i = 0; i < text.length; i++) {
    const c = text[i]!;
    if (c === '"') {
      const [from, to] = valueAt(text, i);
      out += text.slice(from, to);
      i = to - 1;
    } else if (c === '{' || c === '[') {
      const empty = /^[\s]*[}\]]/.exec(text.slice(i + 1, i + 40));
      if (empty) {
        out += c + empty[0].trim();
        i += empty[0].length;
        continue;
      }
      depth++;
      out += c + line();
    } else if (c === '}' || c === ']') {
      depth = Math.max(0, depth - 1);
      out += line() + c;
    } else if (c === ',') out += c + line();
    else if (c === ':') out += ': ';
    else if (!/\s/.test(c)) out += c;
  }
  return out;
}

/** Why a text is no JSON; empty if it is. */
export function wrongJSON(text: string): string {
  try {
    JSON.parse(text);
    return '';
  } catch (e) {
    return (e as Error).message;
  }
}
