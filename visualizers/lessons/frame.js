// @ts-check
// The frame: which lesson is shown, what is done, words that point at shapes, and light or dark.

import { find, make } from "./core.js";

/** @typedef {import("./core.js").Lesson} Lesson */

const STORE = "draftscope-lessons";

/**
 * Begin the lessons of a page: each is drawn when it is first shown.
 * @param {Record<string, (lesson: Lesson) => { redraw: () => void }>} lessons
 */
export function begin(lessons) {
  const data = JSON.parse(find(document, "#lesson-data").textContent || "{}");
  const articles = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("article.lesson")]);
  const links = /** @type {HTMLAnchorElement[]} */ ([...document.querySelectorAll(".lessons a")]);
  /** @type {Map<string, { redraw: () => void }>} */
  const drawn = new Map();

  /** @param {HTMLElement} article */
  const start = (article) => {
    const live = find(article, ".live");
    const figure = find(article, ".figure");
    point(article, figure);
    drawn.set(article.id, lessons[article.id]({
      root: article,
      figure,
      data: data[article.id],
      done: () => finish(article, links),
      say: (text) => { if (live.textContent !== text) live.textContent = text; },
    }));
  };

  const show = () => {
    const wanted = location.hash.slice(1).replace(/^lesson=/, "");
    const chosen = articles.find(({ id }) => id === wanted) ?? articles[0];
    for (const article of articles) article.hidden = article !== chosen;
    for (const link of links) {
      if (link.hash === `#${chosen.id}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (!drawn.has(chosen.id)) start(chosen);
  };

  addEventListener("hashchange", () => {
    show();
    scrollTo(0, 0);
    find(document, "article.lesson:not([hidden]) h1").focus({ preventScroll: true }); // nor does a page around this one
  });
  const repaint = () => { for (const { redraw } of drawn.values()) redraw(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  new MutationObserver(repaint).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  for (const article of articles) if (finishedLessons().includes(article.id)) finish(article, links);
  show();
}

/** The names of the lessons that were finished on an earlier visit; none where the browser stores nothing. @returns {string[]} */
function finishedLessons() {
  try {
    const names = JSON.parse(localStorage.getItem(STORE) ?? "[]");
    return Array.isArray(names) ? names : [];
  } catch {
    return [];
  }
}

/** Keep that a lesson is finished, if the browser allows it. @param {string} name */
function keep(name) {
  try {
    localStorage.setItem(STORE, JSON.stringify([...new Set([...finishedLessons(), name])]));
  } catch { /* a private window: it is ticked until the page is left */ }
}

/** Tick a lesson's task, here and in the list of lessons. @param {HTMLElement} article @param {HTMLAnchorElement[]} links */
function finish(article, links) {
  const task = find(article, ".task");
  if (task.classList.contains("is-done")) return;
  task.classList.add("is-done");
  keep(article.id);
  find(task, ".state").textContent = "Done";
  const next = article.nextElementSibling;
  if (next instanceof HTMLElement && next.matches("article.lesson")) {
    task.append(make("a", { class: "next", href: `#${next.id}` }, `Next: ${links.find(({ hash }) => hash === `#${next.id}`)?.textContent} →`));
  }
  const link = links.find(({ hash }) => hash === `#${article.id}`);
  if (!link) return;
  link.classList.add("is-done");
  link.append(make("span", { class: "sr" }, " (done)"));
}

/** Words of the prose point at their shapes: while one is pointed at, all other shapes are pale. @param {HTMLElement} article @param {HTMLElement} figure */
function point(article, figure) {
  for (const word of /** @type {NodeListOf<HTMLElement>} */ (article.querySelectorAll("[data-show]"))) {
    /** @param {boolean} pale */
    const fade = (pale) => {
      for (const shape of figure.querySelectorAll("[data-part]")) {
        shape.classList.toggle("is-pale", pale && shape.getAttribute("data-part") !== word.dataset.show);
      }
    };
    for (const event of ["pointerenter", "focus"]) word.addEventListener(event, () => fade(true));
    for (const event of ["pointerleave", "blur"]) word.addEventListener(event, () => fade(false));
  }
}
