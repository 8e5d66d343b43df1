// @ts-check
// What if the uniform draw had been different: this decision changed, and where the next pass would have started. The trace is not changed.

import { counted } from "./race.js";

/** The result of a step if the uniform draw of one of its acceptance tests had been `coin`. */
export function withUniformDraw(moment, coin) {
  const { replay, step, index, entry } = moment;
  const [acceptProb, own] = [moment.number("accept_prob"), moment.step.coin[entry]];
  const stays = coin < acceptProb;
  const before = (position) => replay.fateOf(replay.entryAt(position, index))?.final;
  const made = new Set(step.deciding.filter((each) => replay.fates[step.fate[each]].final).map((each) => step.position[each]));
  const actual = { count: made.size, start: firstOpen(replay, made, before) };
  // Where drafts of a pass are tested independently, a rejection does not end those after it: some pass shows it.
  const apart = replay.steps.some(({ fate, coin: coins }) => {
    const names = fate.map((code) => replay.fates[code]?.name);
    const first = names.findIndex((name, at) => name === "resampled" && Number.isFinite(coins?.[at]));
    return first >= 0 && names.some((name, at) => at > first && name === "accepted");
  });
  if (stays === own < acceptProb || apart) return { stays, turned: stays !== own < acceptProb, actual, other: actual, known: true };
  const order = step.deciding.filter((each) => each > entry && !(step.position[each] === moment.position));
  let known = true;
  if (stays) known = goOn(moment, order, made);
  else for (const each of order) made.delete(step.position[each]);
  return { stays, turned: true, actual, other: { count: made.size, start: firstOpen(replay, made, before) }, known };
}

/** Decide the drafts after an accepted one by their own uniform draws, up to the first rejection; return whether all draws were known. */
function goOn({ replay, step, entry }, order, made) {
  let last = step.position[entry];
  for (const each of order) {
    const [acceptProb, coin] = [step.acceptProb?.[each], step.coin?.[each]];
    if (!Number.isFinite(acceptProb) || !Number.isFinite(coin)) {
      const behind = (step.draft?.[each] ?? null) === null;
      if (behind) made.add(step.position[each]);
      return behind;
    }
    last = step.position[each];
    made.add(last);
    if (coin >= acceptProb) return true;
  }
  // All were accepted: what is drawn after them, where the run shows such draws.
  if (replay.steps.some(({ fate }) => fate.some((code) => replay.fates[code]?.name === "bonus")) && last + 1 < replay.positions) made.add(last + 1);
  return true;
}

/** The first position that is not final once `made` is; null where none is left. */
function firstOpen(replay, made, before) {
  for (let position = 0; position < replay.positions; position += 1) if (!made.has(position) && !before(position)) return position;
  return null;
}

export function uniformDrawInWords(moment, { stays, turned, actual, other, known }) {
  if (!turned) return `Still ${stays ? "accepted" : "rejected"}: nothing changes.`;
  const place = (position) => (position === null ? "nowhere, as all tokens are final" : `at ${moment.replay.placeText(position)}`);
  const verdict = stays ? "Then the draft is accepted" : "Then the draft is rejected, and those after it are not final";
  const least = known ? "" : "at least ";
  if (other.start === actual.start) return `${verdict}. The next pass begins ${place(actual.start)}, as it did.`;
  return `${verdict}: ${least}${counted(other.count, "token")} in this pass instead of ${actual.count}, and the next pass begins ${place(other.start)}, not ${place(actual.start)}.`;
}
