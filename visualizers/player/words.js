// @ts-check
// What the tokens of a text show, by the same rules as traces/words.py, and where they stand where some run to the left.

/** Mark of bytes that do not, or not yet, form a character. */
const PIECE = "·";
/** Tokens before one that are looked at for the beginning of its character. */
export const MOST_JOINED = 16;
const BYTE = /<0x([0-9A-F]{2})>/;
export const JOINER = "\u200d";
const CHARACTERS = new Intl.Segmenter("und", { granularity: "grapheme" });
const LAST = /[\u0620\u0626\u0628\u062a-\u062e\u0633-\u0647\u0649\u064a\u066e\u066f\u0678-\u0687\u069a-\u06bf\u06c1\u06c2\u06cc\u06ce\u06d0\u06d1\u06fa-\u06fc\u06ff][\u064b-\u065f\u0670]*$/;
const FIRST = /^[\u0620\u0622-\u063f\u0641-\u064a\u066e\u066f\u0671-\u0673\u0675-\u06d3\u06d5\u06ee-\u06ff]/;
const LEFTWARD = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}]/u;
export const isPlain = (text) => text === null || (/^[\0-\x7f]*$/.test(text) && !BYTE.test(text));

/** What tokens show, given their texts in reading order, null where none is known: a character of several tokens is shown by the last of them. */
export function displayWords(texts) {
  if (texts.every(isPlain)) return [...texts];
  const reader = new WordReader();
  for (const text of texts) reader.read(text);
  reader.giveUp();
  const { shown } = reader;
  let before = null;
  shown.forEach((text, place) => {
    if (text && before !== null) joinWords(shown, before, place);
    before = text === null ? null : text ? place : before;
  });
  return shown;
}

/** What a token shows after those before it; its bytes where they complete no character. */
export function wordAfter(before, text) {
  if (isPlain(text)) return text;
  const shown = displayWords([...before, text]).at(-1);
  return BYTE.test(text) && (!shown || shown.includes(PIECE)) ? text : shown;
}

/** Reads a text token by token; every character goes to the token that has the last of its bytes. */
class WordReader {
  shown = [];
  begun = []; // tokens with bytes of the character under way
  decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

  read(text) {
    this.shown.push(text === null ? null : "");
    if (text === null) this.giveUp();
    (text ?? "").split(BYTE).forEach((part, number) => {
      if (number % 2) return this.byte(Number.parseInt(part, 16));
      if (part) this.giveUp();
      if (part) this.shown[this.shown.length - 1] += part;
    });
  }

  /** The bytes that were begun form no character. */
  giveUp() {
    if (!this.begun.length) return;
    for (const place of new Set(this.begun)) if (!this.shown[place].endsWith(PIECE)) this.shown[place] += PIECE;
    this.begun = [];
    this.decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  }

  byte(value) {
    let character = this.decode(value);
    if (character === null && this.begun.length) { // it does not go on, but may begin
      this.giveUp();
      character = this.decode(value);
    }
    this.begun.push(this.shown.length - 1);
    if (character === null) return this.giveUp();
    if (character) this.begun = [];
    this.shown[this.shown.length - 1] += character;
  }

  decode(value) {
    try {
      return this.decoder.decode(Uint8Array.of(value), { stream: true });
    } catch {
      return null;
    }
  }
}

/** Let the token at `place` show a character that begins at `before`, and Arabic letters join. */
function joinWords(shown, before, place) {
  const [first, second] = [shown[before], shown[place]];
  if (isPlain(first.at(-1) + second[0])) return;
  const last = [...CHARACTERS.segment(first)].at(-1).segment;
  const [{ segment: whole }] = CHARACTERS.segment(last + second);
  if (whole.length > last.length && last !== PIECE) [shown[before], shown[place]] = [first.slice(0, -last.length), last + second];
  else if (LAST.test(first) && FIRST.test(second)) [shown[before], shown[place]] = [first + JOINER, JOINER + second];
}

/** To which side a text runs, by its first letter; digits run to the right, and signs have none. */
export function directionOf(text) {
  const [letter] = /[\p{L}\p{N}]/u.exec(text) ?? [""];
  return letter === "" ? "" : LEFTWARD.test(letter) && !/\p{Nd}/u.test(letter) ? "left" : "right";
}

/**
 * How the words of a line, {x, width, side}, have to move so that those that run to the left are read from the right: a function from
 * x and width to the new x and whether the word runs to the left. `base` is the side to which the whole text runs.
 */
export function arrangement(words, left, right, base) {
  const sorted = [...words].sort((one, other) => one.x - other.x);
  const known = (index, step) => sorted.slice(...(step < 0 ? [0, index] : [index + 1]))[step < 0 ? "findLast" : "find"](({ side }) => side)?.side ?? base;
  const runs = [];
  sorted.forEach(({ x, width, side }, index) => {
    const own = side || (known(index, -1) === known(index, 1) ? known(index, 1) : base);
    if (runs.at(-1)?.side === own) runs.at(-1).until = Math.max(runs.at(-1).until, x + width);
    else runs.push({ from: x, until: x + width, side: own });
  });
  return (x, width) => {
    const run = runs.findLast(({ from }) => from <= x + 0.01) ?? { side: base };
    const own = run.side === base ? x : run.from + run.until - x - width;
    return { x: base === "left" ? left + right - own - width : own, leftward: run.side === "left" };
  };
}
