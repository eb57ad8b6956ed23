"""What a browser can say of any page: is it legible, does it fit, does every control show its focus."""

from typing import Final

# Every text against what is painted behind it: letters in a drawing against their bar or circle; placeholders
# and the labels that stand before a cell (`::before`) like any other text.
CONTRAST: Final = """
() => {
  const parse = text => { const n = text.match(/[\\d.]+/g).map(Number);
    return n.length < 4 ? [...n, 1] : n; };
  const over = (top, under) => [0, 1, 2].map(i => top[i] * top[3] + under[i] * (1 - top[3]));
  const light = rgb => { const [r, g, b] = rgb.map(v => { v /= 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const shapes = {'g.bar': ':scope > rect', 'g.ring-device': ':scope > .ring-circle'};
  const behind = elt => { const layers = [];
    const hub = elt.closest('.ring-count, .ring-of') && document.querySelector('.ring-hub');
    if (hub) layers.push(parse(getComputedStyle(hub).fill));
    for (let e = elt; e; e = e.parentElement) {
      const style = getComputedStyle(e);
      if (!(e instanceof SVGElement) && style.backgroundColor) layers.push(parse(style.backgroundColor));
      for (const [group, inner] of Object.entries(shapes)) {
        const shape = e.matches(group) && e.querySelector(inner);
        const fill = shape && getComputedStyle(shape).fill;
        if (fill && fill.startsWith('rgb')) layers.push(parse(fill)); } }
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]); };
  const bad = [];
  const judge = (elt, color, words) => { const ground = behind(elt);
    const [a, b] = [light(over(parse(color), ground)), light(ground)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push(`${ratio.toFixed(2)} ${elt.tagName}.${elt.getAttribute('class')} ${words}`); };
  const exempt = 'title, option, noscript, button:disabled, .skip';
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const elt = node.parentElement;
    if (!node.data.trim() || !elt.getBoundingClientRect().width || elt.closest(exempt)) continue;
    const style = getComputedStyle(elt);
    judge(elt, elt instanceof SVGElement ? style.fill : style.color, node.data); }
  for (const elt of document.querySelectorAll('input:not([type=hidden]), textarea')) {
    judge(elt, getComputedStyle(elt).color, elt.name);
    if (elt.placeholder) judge(elt, getComputedStyle(elt, '::placeholder').color, elt.placeholder); }
  for (const elt of document.querySelectorAll('[data-label]')) {
    const before = getComputedStyle(elt, '::before');
    if (before.content !== 'none') judge(elt, before.color, before.content); }
  return bad;
}
"""
OUTSIDE: Final = """
() => [...document.querySelectorAll('main *, header *, footer *')].filter(elt => {
  const box = elt.getBoundingClientRect();
  const right = document.documentElement.clientWidth + 1;
  return box.width && box.right > right && !elt.closest('.scroll, pre, svg');
}).map(elt => `${elt.tagName}.${elt.getAttribute('class')} ${elt.getBoundingClientRect().right}`)
"""
# Text that another text stands on: labels of a stacked table that are too long for their column.
OVERLAPPING: Final = """
() => [...document.querySelectorAll('.stacked [data-label]')].filter(elt => {
  const style = getComputedStyle(elt, '::before');
  if (style.content === 'none' || style.position !== 'absolute') return false;
  return elt.getBoundingClientRect().width && parseFloat(style.height) > 30;
}).map(elt => elt.dataset.label)
"""
# Words in a column so narrow that they break into a tower of letters.
SQUEEZED: Final = """
() => [...document.querySelectorAll('main code, main td, main th, main dd, main dt, main li, main p, main a')]
  .filter(elt => { const box = elt.getBoundingClientRect();
    return box.width && box.width < 34 && box.height > 70 && elt.textContent.trim().length > 4; })
  .map(elt => elt.textContent.trim().slice(0, 40))
"""
# Why something was rejected or went wrong, cut off before its end.
CUT_SHORT: Final = """
() => [...document.querySelectorAll('.why, .wrong')].filter(elt => elt.scrollHeight > elt.clientHeight + 1)
  .map(elt => elt.textContent.trim().slice(0, 80))
"""
TOO_WIDE_PX: Final = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
LINKS: Final = """
() => [...new Set([...document.querySelectorAll('a[href]:not([download])')]
  .map(elt => elt.getAttribute('href')))]
"""
FOCUSABLE: Final = (
    "a[href], button:not(:disabled), input:not([type=hidden]), select, textarea, summary, [tabindex='0']"
)
# Notes every element that gets the focus: its place among all controls, and whether it is seen and outlined.
WATCH_FOCUS: Final = """
selector => { const controls = () => [...document.querySelectorAll(selector)]
    .filter(elt => elt.getClientRects().length && elt.checkVisibility());
  window.focused = []; window.controlCount = controls().length;
  document.activeElement.blur(); window.getSelection().removeAllRanges();
  document.addEventListener('focusin', event => {
    const elt = event.target; const style = getComputedStyle(elt);
    const outlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1;
    const box = elt.getBoundingClientRect();
    const seen = box.width > 0 && box.right > 0 && box.left < innerWidth
      && box.bottom > 0 && box.top < innerHeight;
    const name = (elt.textContent || elt.name || elt.id).trim().slice(0, 30);
    window.focused.push([controls().indexOf(elt), outlined, seen, `${elt.tagName} ${name}`]); });
  return window.controlCount; }
"""
FOCUSED: Final = "window.focused"
