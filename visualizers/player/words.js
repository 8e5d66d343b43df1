// @ts-check
// What the tokens of a text show, by the same rules as traces/words.py, and where they stand where some run to the left.

/** Mark of bytes that do not, or not yet, form a character. */
const PIECE = "·";
/** Tokens before one that are looked at for the beginning of its character. */
export const MAX_JOINED = 16;
const BYTE = /<0x([0-9A-F]{2})>/;
export const JOINER = "\u200d";
const CHARACTERS = new Intl.Segmenter("und", { granularity: "grapheme" });
/** A letter that joins the next one, with the marks over it: by Unicode's Joining_Type, which JavaScript does not know. */
const LAST = /[\u0620\u0626\u0628\u062a-\u062e\u0633-\u0647\u0649\u064a\u066e\u066f\u0678-\u0687\u069a-\u06bf\u06c1\u06c2\u06cc\u06ce\u06d0\u06d1\u06fa-\u06fc\u06ff\u0712-\u0714\u071a-\u071d\u071f-\u0727\u0729\u072b\u072d\u072e\u074e-\u0758\u075c-\u076a\u076d-\u0770\u0772\u0775-\u0777\u077a-\u077f\u07ca-\u07ea\u07fa\u0841-\u0845\u0848\u084a-\u0853\u0855\u0860\u0862-\u0865\u0868\u0883-\u0886\u0889-\u088d\u088f\u08a0-\u08a9\u08af\u08b0\u08b3-\u08b8\u08ba-\u08c8\u1807\u180a\u1820-\u1878\u1887-\u18a8\u18aa\ua840-\ua872\u{10ac0}-\u{10ac4}\u{10acd}\u{10ad3}-\u{10adc}\u{10ade}-\u{10ae0}\u{10aeb}-\u{10aee}\u{10b80}\u{10b82}\u{10b86}-\u{10b88}\u{10b8a}\u{10b8b}\u{10b8d}\u{10b90}\u{10bad}\u{10bae}\u{10d00}-\u{10d21}\u{10d23}\u{10ec3}\u{10ec4}\u{10ec6}\u{10ec7}\u{10ed9}-\u{10eee}\u{10f30}-\u{10f32}\u{10f34}-\u{10f44}\u{10f51}-\u{10f53}\u{10f70}-\u{10f73}\u{10f76}-\u{10f81}\u{10fb0}\u{10fb2}\u{10fb3}\u{10fb8}\u{10fbb}\u{10fbc}\u{10fbe}\u{10fbf}\u{10fc1}\u{10fc4}\u{10fca}\u{10fcb}\u{1e900}-\u{1e943}][\p{Mn}\p{Me}]*$/u;
/** A letter that joins the one before. */
const FIRST = /^[\u0620\u0622-\u064a\u066e\u066f\u0671-\u0673\u0675-\u06d3\u06d5\u06ee\u06ef\u06fa-\u06fc\u06ff\u0710\u0712-\u072f\u074d-\u077f\u07ca-\u07ea\u07fa\u0840-\u0858\u0860\u0862-\u0865\u0867-\u086a\u0870-\u0886\u0889-\u088f\u08a0-\u08ac\u08ae-\u08c8\u1807\u180a\u1820-\u1878\u1887-\u18a8\u18aa\ua840-\ua871\u{10ac0}-\u{10ac5}\u{10ac7}\u{10ac9}\u{10aca}\u{10ace}-\u{10ad6}\u{10ad8}-\u{10ae1}\u{10ae4}\u{10aeb}-\u{10aef}\u{10b80}-\u{10b91}\u{10ba9}-\u{10bae}\u{10d01}-\u{10d23}\u{10ec2}-\u{10ec4}\u{10ec6}\u{10ec7}\u{10f30}-\u{10f44}\u{10f51}-\u{10f54}\u{10f70}-\u{10f81}\u{10fb0}\u{10fb2}-\u{10fb6}\u{10fb8}-\u{10fbf}\u{10fc1}-\u{10fc4}\u{10fc9}\u{10fca}\u{1e900}-\u{1e943}]/u;
const LEFTWARD = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}]/u;
/** @param {string | null} text */
export const isPlain = (text) => text === null || (/^[\0-\x7f]*$/.test(text) && !BYTE.test(text));

/**
 * Texts that tokens show, given their own texts in reading order, null where none is known: a character of several tokens is shown by the last of them.
 * @param {(string | null)[]} texts @returns {(string | null)[]}
 */
export function displayWords(texts) {
  if (texts.every(isPlain)) return [...texts];
  const reader = new WordReader();
  for (const text of texts) reader.read(text);
  reader.giveUp();
  const { shown } = reader;
  /** @type {number | null} */
  let before = null;
  shown.forEach((text, index) => {
    if (text && before !== null) joinWords(shown, before, index);
    before = text === null ? null : text ? index : before;
  });
  return shown;
}

/**
 * Text that a token shows after those before it; its bytes where they complete no character.
 * @param {(string | null)[]} before @param {string} text @returns {string}
 */
export function wordAfter(before, text) {
  if (isPlain(text)) return text;
  const shown = displayWords([...before, text]).at(-1) ?? "";
  return BYTE.test(text) && (!shown || shown.includes(PIECE)) ? text : shown;
}

/** Reads a text token by token; every character goes to the token that has the last of its bytes. */
class WordReader {
  /** @type {(string | null)[]} */
  shown = [];
  /** @type {number[]} */
  begun = []; // tokens with bytes of the character under way
  decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

  /** @param {string | null} text */
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
    for (const index of new Set(this.begun)) if (!this.shown[index]?.endsWith(PIECE)) this.shown[index] += PIECE;
    this.begun = [];
    this.decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  }

  /** @param {number} value */
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

  /** @param {number} value @returns {string | null} */
  decode(value) {
    try {
      return this.decoder.decode(Uint8Array.of(value), { stream: true });
    } catch {
      return null;
    }
  }
}

/**
 * Let the token at `place` show a character that begins at `before`, and letters that join do so.
 * @param {(string | null)[]} shown @param {number} before @param {number} index
 */
function joinWords(shown, before, index) {
  const [first, second] = [shown[before] ?? "", shown[index] ?? ""];
  if (isPlain(first.slice(-1) + second.slice(0, 1))) return;
  const last = [...CHARACTERS.segment(first)].at(-1)?.segment ?? "";
  const [{ segment: joined }] = CHARACTERS.segment(last + second);
  if (joined.length > last.length && last !== PIECE) [shown[before], shown[index]] = [first.slice(0, -last.length), last + second];
  else if (LAST.test(first) && FIRST.test(second)) [shown[before], shown[index]] = [first + JOINER, JOINER + second];
}

/** To which side a text runs, by its first letter; digits run to the right, and signs have none. @param {string} text @returns {string} */
export function directionOf(text) {
  const [letter] = /[\p{L}\p{N}]/u.exec(text) ?? [""];
  return letter === "" ? "" : LEFTWARD.test(letter) && !/\p{Nd}/u.test(letter) ? "left" : "right";
}

/**
 * How the words of a line, {x, width, side}, have to move so that those that run to the left are read from the right: a function from
 * x and width to the new x and whether the word runs to the left. `base` is the side to which the whole text runs.
 * @param {{ x: number, width: number, side: string }[]} words @param {number} left @param {number} right @param {string} base
 */
export function arrangement(words, left, right, base) {
  const sorted = [...words].sort((one, other) => one.x - other.x);
  const known = (/** @type {number} */ index, /** @type {number} */ step) => sorted.slice(...(step < 0 ? [0, index] : [index + 1]))[step < 0 ? "findLast" : "find"](({ side }) => side)?.side ?? base;
  /** @type {{ from: number, until: number, side: string }[]} */
  const runs = [];
  sorted.forEach(({ x, width, side }, index) => {
    const runSide = side || (known(index, -1) === known(index, 1) ? known(index, 1) : base);
    const last = runs.at(-1);
    if (last?.side === runSide) last.until = Math.max(last.until, x + width);
    else runs.push({ from: x, until: x + width, side: runSide });
  });
  return (/** @type {number} */ x, /** @type {number} */ width) => {
    const run = runs.findLast(({ from }) => from <= x + 0.01);
    const start = !run || run.side === base ? x : run.from + run.until - x - width;
    return { x: base === "left" ? left + right - start - width : start, leftward: (run?.side ?? base) === "left" };
  };
}
