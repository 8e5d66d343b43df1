// @ts-check
// What if the uniform draw had been different: this decision changed, and where the next pass would have started. The trace is not changed.

import { counted } from "./race.js";

/** The result of a step if the uniform draw of one of its acceptance tests had been `coin`. */
export function withUniformDraw(moment, coin) {
  const { replay, step, index, entry } = moment;
  const [acceptProb, recorded] = [moment.number("accept_prob"), moment.step.coin[entry]];
  const stays = coin < acceptProb;
  const before = (position) => replay.fateOf(replay.entryAt(position, index))?.final;
  const madeFinal = new Set(step.deciding.filter((each) => replay.fates[step.fate[each]].final).map((each) => step.position[each]));
  const actual = { count: madeFinal.size, start: firstOpen(replay, madeFinal, before) };
  // Where drafts of a pass are tested independently, a rejection does not end those after it: some pass shows it.
  const apart = replay.steps.some(({ fate, coin: coins }) => {
    const names = fate.map((code) => replay.fates[code]?.name);
    const first = names.findIndex((name, at) => name === "resampled" && Number.isFinite(coins?.[at]));
    return first >= 0 && names.some((name, at) => at > first && name === "accepted");
  });
  if (stays === recorded < acceptProb || apart) return { stays, turned: stays !== recorded < acceptProb, actual, other: actual, known: true };
  const order = step.deciding.filter((each) => each > entry && !(step.position[each] === moment.position));
  let known = true;
  if (stays) known = verifyAfter(moment, order, madeFinal);
  else for (const each of order) madeFinal.delete(step.position[each]);
  return { stays, turned: true, actual, other: { count: madeFinal.size, start: firstOpen(replay, madeFinal, before) }, known };
}

/** Decide the drafts after an accepted one by their own uniform draws, up to the first rejection; return whether all draws were known. */
function verifyAfter({ replay, step, entry }, order, madeFinal) {
  let last = step.position[entry];
  for (const each of order) {
    const [acceptProb, coin] = [step.acceptProb?.[each], step.coin?.[each]];
    if (!Number.isFinite(acceptProb) || !Number.isFinite(coin)) {
      const isAfterDrafts = (step.draft?.[each] ?? null) === null;
      if (isAfterDrafts) madeFinal.add(step.position[each]);
      return isAfterDrafts;
    }
    last = step.position[each];
    madeFinal.add(last);
    if (coin >= acceptProb) return true;
  }
  // All were accepted: what is drawn after them, where the run shows such draws.
  if (replay.steps.some(({ fate }) => fate.some((code) => replay.fates[code]?.name === "bonus")) && last + 1 < replay.positions) madeFinal.add(last + 1);
  return true;
}

/** The first position that is not final once `made` is; null where none is left. */
function firstOpen(replay, madeFinal, before) {
  for (let position = 0; position < replay.positions; position += 1) if (!madeFinal.has(position) && !before(position)) return position;
  return null;
}

export function uniformDrawInWords(moment, { stays, turned, actual, other, known }) {
  if (!turned) return `Still ${stays ? "accepted" : "rejected"}: nothing changes.`;
  const positionText = (position) => (position === null ? "nowhere, as all tokens are final" : `at ${moment.replay.placeText(position)}`);
  const verdict = stays ? "Then the draft is accepted" : "Then the draft is rejected, and those after it are not final";
  const atLeast = known ? "" : "at least ";
  if (other.start === actual.start) return `${verdict}. The next pass begins ${positionText(actual.start)}, as it did.`;
  return `${verdict}: ${atLeast}${counted(other.count, "token")} in this pass instead of ${actual.count}, and the next pass begins ${positionText(other.start)}, not ${positionText(actual.start)}.`;
}
