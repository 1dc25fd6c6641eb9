#include "reproduce/page_style.h"

namespace braid {

const char kReproductionStyle[] = R"css(
:root { --shown: #00756a; --not-shown: #b83a00; --inconclusive: #6b5f00; }
@media (prefers-color-scheme: dark) {
  :root { --shown: #5ed3b4; --not-shown: #ff9166; --inconclusive: #dcc96a; }
}
@media print {
  :root { --shown: #00756a; --not-shown: #b83a00; --inconclusive: #6b5f00; }
}
.shown { color: var(--shown); }
.not-shown { color: var(--not-shown); }
.inconclusive { color: var(--inconclusive); }
.not-measured { color: var(--muted); }
.reported { color: var(--text); }
.verdict { white-space: nowrap; font-weight: 600; }
svg.sign { width: 0.9em; height: 0.9em; margin-right: 0.3em; vertical-align: -0.08em; }
.cross { fill: none; stroke: currentColor; stroke-width: 2.6; }
.seed { fill: none; stroke: currentColor; stroke-width: 1; }
.margin { fill: var(--mark); }
.allowance { fill: none; stroke: currentColor; stroke-width: 1.2; stroke-dasharray: 2 2; }
svg text.group { font-size: 12px; font-weight: 600; fill: var(--text); }
/* An outline in the color of the page interrupts lines that the text crosses. */
svg text.over { paint-order: stroke; stroke: var(--page); stroke-width: 4px; }
svg text.faint { font-size: 11px; }
.counts { display: flex; flex-wrap: wrap; gap: 4px 26px; margin: 12px 0 18px; font-size: 17px; }
.claim {
  display: grid; grid-template-columns: 8.8em 9fr 5fr; gap: 4px 18px; padding: 12px 0;
  border-top: 1px solid var(--rule);
}
.claim > * { min-width: 0; margin: 0; }
.claim h3 { grid-area: 1 / 2 / 2 / 4; }
.claim .outcome { grid-area: 1 / 1 / 3 / 2; }
.claim h3 a { color: var(--text); text-decoration: none; }
.claim h3 a:hover, .claim h3 a:focus-visible { text-decoration: underline; }
.claim ul { list-style: none; padding: 0; font-size: 14px; }
.claim li { padding-left: 1.2em; text-indent: -1.2em; overflow-wrap: anywhere; }
.claim .caution { padding-left: 1.2em; text-indent: 0; margin-top: 2px; max-width: 50em; }
.measured { white-space: nowrap; }
.claim .paper { color: var(--muted); font-size: 13px; overflow-wrap: anywhere; }
.sentence { margin: 6px 0; max-width: 50em; overflow-wrap: anywhere; }
.parts td { white-space: nowrap; }
.parts td:first-child { white-space: normal; min-width: 13em; overflow-wrap: anywhere; }
table.facts { margin: 8px 0 14px; }
table.facts td { overflow-wrap: anywhere; }
table.facts th { vertical-align: top; white-space: nowrap; }
.warning { background: var(--mark); border-radius: 6px; padding: 8px 12px; max-width: 50em; }
.reading p { max-width: 50em; }
.key { display: flex; flex-wrap: wrap; gap: 2px 18px; font-size: 13px; margin: 8px 0 4px; }
.key svg { height: 12px; width: 34px; margin-right: 6px; vertical-align: -1px; }
/* A single figure has the same size as one of two. */
.grid2 { grid-template-columns: repeat(auto-fill, minmax(min(100%, 400px), 1fr)); }
@media screen and (max-width: 640px) {
  .claim { display: block; }
  .claim .outcome { margin: 2px 0 4px; }
  .measured { white-space: nowrap; }
  .claim .paper { margin-top: 4px; }
  .parts td:first-child { min-width: 9em; }
}
@media print {
  .claim { break-inside: avoid; }
  .key { break-after: avoid; }
  .grid2, .maps { grid-template-columns: 1fr 1fr; }
}
)css";

}  // namespace braid
