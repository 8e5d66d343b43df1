// What the scripts around the player define on every page (terms.js, address.js) and the player itself for its hosts.

interface DraftscopeTerms {
  /** Text with the explanation of a term of the glossary, or of `text`. */
  term(name: string, text: string, says?: string): HTMLElement;
  /** Mark the terms in what a node says. */
  mark(root: Element): void;
  /** Mark the terms of a page, now and whenever it changes. */
  watch(root: Element): void;
}

interface DraftscopeAddress {
  write(parts: Record<string, string>, how?: "replaceState" | "pushState"): void;
  hasOnlyPosition(): boolean;
  lesson(): string;
  openLesson(name: string): void;
  position(): Record<string, string>;
  setRun(tab: string, run: string, inAddress?: boolean): void;
  setPosition(reading: Record<string, string | number | null>, run: string): void;
  setGrid(link: string): void;
  chooseTab(tab: string): void;
}

/** Name -> what the term means and the words by which it is known (glossary.toml). */
declare var GLOSSARY: Record<string, { says: string; words: string[] }>;
declare var draftscopeTerms: DraftscopeTerms;
declare var draftscopeAddress: DraftscopeAddress;
declare var Draftscope: { mount: (root: Element, options: object) => object };
