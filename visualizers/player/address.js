// @ts-check
(() => {
  // The page's address; no other code writes it. After its # come, each only if present: the `tab` with its `lesson`, the
  // `run` that is shown (a recording, runs that are compared, or what decodes it), the scene of a `tour`, and the `position` in the run.
  if (globalThis.draftscopeAddress) return;
  const POSITION_KEYS = ["step", "ms", "clock", "on", "token"];
  /** @type {Record<string, string>} */
  const runsByTab = {}; // tab -> the run that it shows
  /** @type {Record<string, string>} */
  const positionsByRun = {}; // run -> its address parameters, while another run is shown
  /** @typedef {"tab" | "lesson" | "run" | "grid" | "tour" | "position"} Part */
  let prompts = ""; // of the grid
  /** @param {string} key */
  const partOf = (key) => (POSITION_KEYS.includes(key) ? "position" : ["tab", "lesson", "tour"].includes(key) ? key : ["grid", "seeds"].includes(key) ? "grid" : "run");

  const read = () => {
    /** @type {Record<string, string[]>} */
    const parts = { tab: [], lesson: [], run: [], grid: [], tour: [], position: [] };
    for (const pair of location.hash.slice(1).split("&").filter(Boolean)) parts[partOf(pair.split("=")[0])].push(pair);
    return /** @type {Record<Part, string>} */ (Object.fromEntries(Object.entries(parts).map(([name, pairs]) => [name, pairs.join("&")])));
  };
  let lessonPart = read().lesson; // that Learn shows, also while another tab is open
  /** Write some parts and leave the others. @type {DraftscopeAddress["write"]} */
  const write = (parts, method = "replaceState") => {
    history[method](history.state, "", `#${Object.values({ ...read(), ...parts }).filter(Boolean).join("&")}`);
  };
  const compared = () => /(^|&)compare=/.test(read().run);
  const tab = () => read().tab.slice("tab=".length) || (compared() ? "compare" : "watch");
  const position = () => Object.fromEntries(new URLSearchParams(read().position));
  /** A tab shows a run: another one, or the one that the address already names (`inAddress`). @type {DraftscopeAddress["setRun"]} */
  const setRun = (tabName, run, inAddress = false) => {
    runsByTab[tabName] = run;
    if (tab() === tabName && !inAddress) write({ run, tour: "", position: tabName === "compare" ? read().position : "" });
  };
  /** The player of the first tab is at this position of a run. @type {DraftscopeAddress["setPosition"]} */
  const setPosition = (reading, run) => {
    if (run) runsByTab.watch = run;
    const pairs = Object.entries(reading).filter(([, value]) => value !== null);
    write({ run: run || read().run, position: pairs.map((pair) => pair.join("=")).join("&") });
  };
  /** The prompt list next to compared runs requests other prompts. @type {DraftscopeAddress["setGrid"]} */
  const setGrid = (link) => {
    prompts = link;
    if (compared()) write({ grid: link });
  };
  /** The button of the tab that the address names. @returns {HTMLElement | undefined} */
  const tabButton = () => [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[role=tablist] > *"))].find(({ dataset }) => dataset.tabId === tab());
  /** The name of the lesson that Learn shows; empty for the first. */
  const lesson = () => lessonPart.slice("lesson=".length);
  /** A lesson was chosen, on any tab, and Back leads to what was there before. @type {DraftscopeAddress["openLesson"]} */
  const openLesson = (name) => {
    lessonPart = `lesson=${name}`;
    if (tab() !== "learn") chooseTab("learn");
    else if (read().lesson !== lessonPart) write({ lesson: lessonPart }, "pushState");
    tabButton()?.click();
    document.dispatchEvent(new CustomEvent("draftscope-lesson"));
  };
  /** A tab was chosen, and Back leads to the one before. @type {DraftscopeAddress["chooseTab"]} */
  const chooseTab = (name) => {
    const current = read();
    positionsByRun[current.run] = current.position;
    const run = runsByTab[name] || runsByTab.watch || (compared() ? "" : current.run);
    /** @type {Record<string, string>} */
    const other = run === current.run ? {} : { tour: "", position: positionsByRun[run] ?? "" };
    const method = name === tab() ? "replaceState" : "pushState";
    write({ tab: name === "watch" ? "" : `tab=${name}`, lesson: name === "learn" ? lessonPart : "", run, grid: name === "compare" ? prompts || current.grid : "", ...other }, method);
  };
  addEventListener("popstate", () => {
    if (tab() === "learn") lessonPart = read().lesson;
    tabButton()?.click();
    document.dispatchEvent(new CustomEvent("draftscope-lesson"));
  });
  /** Whether the address names nothing but a position in what the page opens with. */
  const hasOnlyPosition = () => Object.entries(read()).every(([part, value]) => part === "position" || !value);
  globalThis.draftscopeAddress = { write, hasOnlyPosition, lesson, openLesson, position, setRun, setPosition, setGrid, chooseTab };
})();
