"""Every device as a small curve: the computed speed-up by draft length. One of them is chosen."""

from typing import Any, Final

import gradio as gr

from demo.panels.widgets import component
from traces.speculating import MOST_DRAFTS, Plan
from visualizers.figures.calculator import DeviceCurve, device_curves

_JS: Final = """
const [WIDE, TALL] = [160, 64];
const drawn = (tag, attributes, ...children) => {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};
const curve = ({ speeds, best, pays_to: last }, { longest, most }) => {
  const x = (drafts) => 4 + ((WIDE - 8) * Math.log(drafts)) / Math.log(longest);
  const y = (speed) => TALL - 4 - ((TALL - 10) * speed) / most;
  const points = speeds.map(([drafts, speed]) => [x(drafts), y(speed)]);
  const at = points[speeds.findIndex(([drafts]) => drafts === best)];
  const ends = last > 0 && last < speeds.at(-1)[0] ? [x(last + 0.5)] : [];
  return drawn('svg', { viewBox: `0 0 ${WIDE} ${TALL}`, 'aria-hidden': 'true' },
    drawn('path', { class: 'one', d: `M0 ${y(1)}H${WIDE}` }),
    drawn('path', { d: `M${points.map((one) => one.join(' ')).join('L')}` }),
    ...ends.map((end) => drawn('path', { class: 'cross', d: `M${end} ${y(1) - 7}v14` })),
    drawn('circle', { cx: at[0], cy: at[1], r: 4 }));
};
const show = () => {
  const { chosen, curves = [], ...scale } = props.value ?? {};
  const held = element.contains(document.activeElement);
  const one = (each, index) => {
    const radio = build('input', { type: 'radio', name: 'calculator-device', value: index });
    radio.checked = each.device === chosen;
    radio.disabled = !each.speeds.length;
    return build('label', { 'data-no-terms': '' }, radio,
      build('strong', {}, each.device), build('span', {}, each.fastest),
      ...(each.speeds.length ? [curve(each, scale)] : []), build('small', {}, each.note));
  };
  place.replaceChildren(build('fieldset', {},
    build('legend', {}, 'Computed speed-up by draft length γ, on every device'),
    build('p', {}, `γ from 1 to ${scale.longest}. Dotted line: ordinary decoding. Dot: the fastest γ. ` +
      'Orange mark: from there on slower than ordinary decoding.'), ...curves.map(one)));
  if (held) place.querySelector(':checked')?.focus();
};
element.addEventListener('change', ({ target }) => trigger('choose', { index: Number(target.value) }));
"""
_CSS: Final = """
fieldset { display: grid; grid-template-columns: repeat(auto-fill, minmax(max(140px, 15%), 1fr)); gap: 8px;
  min-width: 0; margin: 0; padding: 0; border: 0; }
legend { margin: 0 0 2px; padding: 0; font-size: 15px; font-weight: 650; color: var(--body-text-color); }
p, small, span { color: var(--body-text-color-subdued); font-variant-numeric: tabular-nums; }
p { grid-column: 1 / -1; margin: 0; font-size: 13px; }
label { position: relative; display: grid; grid-template-columns: 1fr auto; align-content: start; gap: 2px 8px;
  margin: 0; padding: 8px 10px; border: 1px solid var(--border-color-primary); border-radius: 10px; font-size: 13px;
  color: var(--body-text-color); cursor: pointer; }
label:hover:has(:enabled) { border-color: var(--color-accent); }
label:has(:checked) { border-color: var(--color-accent); box-shadow: inset 0 0 0 2px var(--color-accent); }
label:has(:disabled) { border-style: dashed; cursor: default; }
label:has(:focus-visible) { outline: 3px solid var(--color-accent); outline-offset: 2px; }
input { position: absolute; opacity: 0; }
svg, small { grid-column: 1 / -1; }
svg { display: block; width: 100%; overflow: visible; }
path { fill: none; stroke: var(--body-text-color-subdued); stroke-width: 2; }
label:has(:checked) path:not([class]) { stroke: var(--color-accent); stroke-width: 3; }
path.one { stroke-width: 1; stroke-dasharray: 3 3; }
path.cross { stroke: #D55E00; stroke-width: 2.5; }
circle { fill: var(--body-text-color); }
small { font-size: 12px; }
"""


def device_curves_chooser(plan: Plan) -> gr.HTML:
    """The curves; the event `choose` carries the index of a device, in the order of `DEVICES`."""
    return component(curves_of(plan), _JS, _CSS, elem_id="calculator-devices")


def curves_of(plan: Plan) -> dict[str, Any]:
    """The value of the curves: names, numbers, and both in words."""
    curves = device_curves(plan)
    most = max((speed for each in curves for speed in each.speeds.values()), default=1.0)
    return {
        "chosen": plan.device.name,
        "longest": MOST_DRAFTS,
        "most": max(1.0, most),
        "curves": [
            {
                "device": each.device,
                "speeds": [*each.speeds.items()],
                "best": each.best if each.speeds else 0,
                "pays_to": each.pays_to,
                **_words(each),
            }
            for each in curves
        ],
    }


def _words(each: DeviceCurve) -> dict[str, str]:
    if not each.speeds:
        return {"fastest": "", "note": "too little memory"}
    fastest = f"{each.speeds[each.best]:.1f}× at γ {each.best}"
    if not each.pays_to:
        return {"fastest": fastest, "note": "never faster"}
    last = max(each.speeds)
    return {"fastest": fastest, "note": f"slower from γ {each.pays_to + 1}" if each.pays_to < last else "never slower"}
