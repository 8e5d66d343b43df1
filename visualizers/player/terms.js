// @ts-check
(() => {
  // What a term means, where it stands: on hover, on focus and on a tap. One box a page says it.
  //
  //   term(name, text, title)  a button that shows what a term means: the glossary's text, or `title`
  //   mark(node)               make the glossary's words in a piece of page such buttons, in each paragraph the first
  //   watch(node)              the same, and again whenever the piece changes
  if (globalThis.draftscopeTerms) return;
  const glossary = GLOSSARY;

  const named = new Map(Object.entries(glossary).flatMap(([name, { words }]) => words.map((word) => [word.toLowerCase(), name])));
  const escaped = [...named.keys()].sort((a, b) => b.length - a.length).map((word) => word.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&"));
  const WORDS = new RegExp(`(?<![\\p{L}\\p{N}_#=-])(?:${escaped.join("|")})(?![\\p{L}\\p{N}_]|[-=]\\p{L})`, "giu");
  const LEAVE = "button, [role=button], a, summary, input, textarea, select, canvas, svg, code, pre, kbd, script, style, .katex, .ds, .js-plotly-plot, .scroller td, [role=tab], [role=tooltip], [data-no-terms], label:has(> input[type=radio], > input[type=checkbox])";
  const PIECE = "p, li, td, th, dt, dd, h1, h2, h3, h4, label, legend, figcaption";
  const STYLE = `
    .ds-term { color: inherit !important; cursor: help; text-decoration: underline dotted 1px; text-decoration-color: color-mix(in srgb, currentColor 60%, transparent);
      text-underline-offset: 3px; }
    .ds-term:hover, .ds-term:focus-visible { text-decoration-color: currentColor; }
    .ds-tip { position: fixed; z-index: 1000; box-sizing: border-box; width: max-content; max-width: min(360px, calc(100vw - 16px)); margin: 0; padding: 8px 12px; border: 1px solid #71757e;
      border-radius: 8px; background: #24262b; color: #ffffff; font: 400 13px/1.45 system-ui, -apple-system, "Segoe UI", sans-serif; text-align: left; }
    .ds-tip[hidden] { display: none; }`;

  const AFTERMATH_MILLISECONDS = 300;

  const tip = document.createElement("p");
  Object.assign(tip, { id: "ds-tip", className: "ds-tip", hidden: true });
  tip.setAttribute("role", "tooltip");
  /** @type {HTMLElement | null} */
  let shown = null;
  let leaving = 0;
  let pressed = -Infinity;

  /** Put box and style into the page, which may not have had a body when this script ran. */
  const settle = () => {
    if (tip.isConnected) return;
    const style = document.createElement("style");
    style.textContent = STYLE;
    document.head.append(style);
    (document.querySelector("main") ?? document.body).append(tip);
  };

  const hide = () => {
    clearTimeout(leaving);
    shown = null;
    tip.hidden = true;
  };

  /** @param {HTMLElement} button */
  const show = (button) => {
    clearTimeout(leaving);
    settle();
    shown = button;
    tip.textContent = button.dataset.says ?? glossary[button.dataset.term ?? ""]?.says ?? "";
    tip.hidden = !tip.textContent;
    const [at, box] = [button.getBoundingClientRect(), tip.getBoundingClientRect()];
    const above = at.top - box.height - 6;
    tip.style.left = `${Math.max(8, Math.min(at.left, document.documentElement.clientWidth - box.width - 8))}px`;
    tip.style.top = `${above >= 8 ? above : at.bottom + 6}px`;
  };

  /** @type {DraftscopeTerms["term"]} */
  const term = (name, text = name, says = undefined) => {
    settle();
    const button = document.createElement("span"); // a real button does not break over lines
    Object.assign(button, { className: "ds-term", textContent: text, tabIndex: -1 });
    button.setAttribute("role", "button");
    button.setAttribute("aria-describedby", tip.id);
    button.dataset.term = name;
    if (says !== undefined) button.dataset.says = says;
    return button;
  };

  /** Whether a text is laid out as an item: between items no space is left. @param {Text} node */
  const itemOf = (node) => /flex|grid/.test(getComputedStyle(/** @type {Element} */ (node.parentElement)).display);

  const marked = new WeakMap(); // a text that was divided -> the nodes that follow it
  /** Make buttons of the terms in a text, without those already `seen` in its paragraph. @param {Text} node @param {Set<string | undefined>} seen */
  const divide = (node, seen) => {
    /** Text, term, text, term ... @type {(string | HTMLElement)[]} */
    const parts = [];
    let from = 0;
    for (const found of node.data.matchAll(WORDS)) {
      const name = named.get(found[0].toLowerCase());
      if (name === undefined || seen.has(name)) continue;
      seen.add(name);
      parts.push(node.data.slice(from, found.index), term(name, found[0]));
      from = found.index + found[0].length;
    }
    if (!parts.length || (/** @type {HTMLElement} */ (parts[1]).textContent !== node.data.trim() && itemOf(node))) return;
    const [first, ...others] = [...parts, node.data.slice(from)];
    const nodes = others.filter((part) => part !== "").map((part) => (part instanceof Node ? part : document.createTextNode(part)));
    node.after(...nodes);
    node.data = String(first); // the page's own text stays where it is, and may be written to again
    marked.set(node, nodes);
  };

  /** @type {DraftscopeTerms["mark"]} */
  const mark = (root) => {
    if (!root.isConnected || root.closest?.(LEAVE.replace(", .ds", ""))) return;
    /** @type {Text[]} */
    const texts = [];
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT, (node) => {
      if (node instanceof Element) return node.matches(LEAVE) && node !== root ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_SKIP;
      return NodeFilter.FILTER_ACCEPT;
    });
    while (walker.nextNode()) if (walker.currentNode.textContent?.trim()) texts.push(/** @type {Text} */ (walker.currentNode));
    for (const text of texts) {
      const parent = /** @type {Element} */ (text.parentElement);
      const piece = parent.closest(PIECE) ?? parent;
      const seen = new Set([.../** @type {NodeListOf<HTMLElement>} */ (piece.querySelectorAll(".ds-term"))].map(({ dataset }) => dataset.term));
      divide(text, seen);
    }
  };

  /** The keyboard stops at the first term of the page; from there the arrows lead to all others. */
  const visible = () => [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".ds-term"))].filter((button) => button.checkVisibility());
  const keepStop = () => visible().forEach((button, index) => (button.tabIndex = index ? -1 : 0));
  /** @type {Record<string, number>} */
  const ARROWS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  /** Move the focus to the next or previous term. @param {HTMLElement} button @param {number} step */
  const lead = (button, step) => {
    const all = visible();
    all.at((all.indexOf(button) + step) % all.length)?.focus();
  };

  /** @param {Node} node */
  const ours = (node) => (node instanceof Element ? node : node.parentElement)?.closest(".ds, .js-plotly-plot, .ds-tip");
  /** @type {DraftscopeTerms["watch"]} */
  const watch = (root) => {
    const pending = new Set();
    let waiting = 0;
    const work = () => {
      waiting = 0;
      for (const node of pending) mark(node);
      pending.clear();
      observer.takeRecords(); // of what was marked just now
    };
    const observer = new MutationObserver((records) => {
      for (const { type, target } of records) {
        if (ours(target)) continue;
        if (type === "characterData") {
          for (const node of marked.get(target) ?? []) node.remove();
          marked.delete(target);
        }
        const node = target instanceof Element ? target : target.parentElement;
        if (node) pending.add(node);
      }
      if (shown && !shown.isConnected) hide();
      if (pending.size && !waiting) waiting = setTimeout(work, 60);
    });
    mark(root);
    observer.observe(root, { childList: true, subtree: true, characterData: true });
  };

  const of = (/** @type {any} */ { target }) => target.closest?.(".ds-term");
  const within = (/** @type {Event} */ event) => event.target === tip || of(event) === shown;
  const choice = (/** @type {any} */ target) => target.matches?.(":is(input, textarea, select):focus-visible") && target.closest("label")?.querySelector(".ds-term");
  document.addEventListener("pointerover", (event) => {
    if (of(event)) show(of(event));
    else if (shown && within(event)) clearTimeout(leaving);
  });
  document.addEventListener("pointerout", (event) => {
    if (!shown || !within(event)) return;
    clearTimeout(leaving);
    leaving = setTimeout(() => shown !== document.activeElement && hide(), 200); // the box itself can be pointed at
  });
  const justPressed = () => performance.now() - pressed < AFTERMATH_MILLISECONDS;
  document.addEventListener("focusin", (event) => {
    const button = of(event) ?? choice(event.target);
    if (button) show(button);
    else if (shown && !justPressed()) hide();
  });
  document.addEventListener("focusout", () => shown && !justPressed() && hide());
  document.addEventListener("click", (event) => {
    const button = of(event);
    if (!button) return event.target === tip || justPressed() || hide(); // a label presses its control, too
    pressed = performance.now();
    show(button);
    const control = button.closest("label")?.control;
    if (control && !control.matches("input[type=radio], input[type=checkbox]")) event.preventDefault(); // or it takes the focus
  });
  document.addEventListener("keydown", (event) => {
    const button = of(event);
    if (event.key === "Tab") return keepStop();
    if (button && event.key in ARROWS) lead(button, ARROWS[event.key]);
    else if (button && (event.key === "Enter" || event.key === " ")) show(button);
    else if (event.key === "Escape" && shown) hide();
    else return;
    event.stopPropagation();
    event.preventDefault();
  }, true);
  const follow = () => {
    if (!shown) return;
    const { top, bottom } = shown.getBoundingClientRect();
    if (bottom > 0 && top < innerHeight) show(shown);
    else hide();
  };
  addEventListener("scroll", () => shown && follow(), { capture: true, passive: true });

  globalThis.draftscopeTerms = { term, mark, watch };
})();
