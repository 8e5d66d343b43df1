// @ts-check
(() => {
  // The page's address; no other code writes it. After its # come, each only if present: the `tab` with its `lesson`, the
  // `run` that is shown (a recording, runs that are compared, or what decodes it), the scene of a `tour`, and the `place` in the run.
  if (globalThis.draftscopeAddress) return;
  const PLACE = ["step", "ms", "clock", "on", "token"];
  const shown = {}; // tab -> the run that it shows
  const positions = {}; // run -> its address parameters, while another run is shown
  let prompts = ""; // of the grid
  const partOf = (key) => (PLACE.includes(key) ? "place" : ["tab", "lesson", "tour"].includes(key) ? key : ["grid", "seeds"].includes(key) ? "grid" : "run");

  const read = () => {
    const parts = { tab: [], lesson: [], run: [], grid: [], tour: [], place: [] };
    for (const pair of location.hash.slice(1).split("&").filter(Boolean)) parts[partOf(pair.split("=")[0])].push(pair);
    return Object.fromEntries(Object.entries(parts).map(([name, pairs]) => [name, pairs.join("&")]));
  };
  let learned = read().lesson; // that Learn shows, also while another tab is open
  /** Write some parts and leave the others. */
  const write = (parts, how = "replaceState") => {
    history[how](history.state, "", `#${Object.values({ ...read(), ...parts }).filter(Boolean).join("&")}`);
  };
  const compared = () => /(^|&)compare=/.test(read().run);
  const tab = () => read().tab.slice("tab=".length) || (compared() ? "compare" : "watch");
  const position = () => Object.fromEntries(new URLSearchParams(read().place));
  /** A tab shows a run: another one, or that of the address where it is `placed`. */
  const name = (where, run, placed = false) => {
    shown[where] = run;
    if (tab() === where && !placed) write({ run, tour: "", place: where === "compare" ? read().place : "" });
  };
  /** The player of the first tab is at this position of a run. */
  const setPosition = (at, run) => {
    if (run) shown.watch = run;
    const pairs = Object.entries(at).filter(([, value]) => value !== null);
    write({ run: run || read().run, place: pairs.map((pair) => pair.join("=")).join("&") });
  };
  /** The prompt list next to compared runs requests other prompts. */
  const grid = (link) => {
    prompts = link;
    if (compared()) write({ grid: link });
  };
  /** The button of the tab that the address names. @returns {HTMLElement | undefined} */
  const opened = () => [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[role=tablist] > *"))].find(({ dataset }) => dataset.tabId === tab());
  /** The name of the lesson that Learn shows; empty for the first. */
  const lesson = () => learned.slice("lesson=".length);
  /** A lesson was chosen, on any tab, and Back leads to what was there before. */
  const teach = (name) => {
    learned = `lesson=${name}`;
    if (tab() !== "learn") choose("learn");
    else if (read().lesson !== learned) write({ lesson: learned }, "pushState");
    opened()?.click();
    document.dispatchEvent(new CustomEvent("draftscope-lesson"));
  };
  /** A tab was chosen, and Back leads to the one before. */
  const choose = (chosen) => {
    const now = read();
    positions[now.run] = now.place;
    const run = shown[chosen] || shown.watch || (compared() ? "" : now.run);
    const other = run === now.run ? {} : { tour: "", place: positions[run] ?? "" };
    const how = chosen === tab() ? "replaceState" : "pushState";
    write({ tab: chosen === "watch" ? "" : `tab=${chosen}`, lesson: chosen === "learn" ? learned : "", run, grid: chosen === "compare" ? prompts || now.grid : "", ...other }, how);
  };
  addEventListener("popstate", () => {
    if (tab() === "learn") learned = read().lesson;
    opened()?.click();
    document.dispatchEvent(new CustomEvent("draftscope-lesson"));
  });
  /** Whether the address names nothing but a position in what the page opens with. */
  const placedAlone = () => Object.entries(read()).every(([part, value]) => part === "place" || !value);
  globalThis.draftscopeAddress = { write, placedAlone, lesson, teach, position, name, setPosition, grid, choose };
})();
