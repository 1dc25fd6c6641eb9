#include "report/report_style.h"

namespace braid {

const char kReportStyle[] = R"css(
:root {
  color-scheme: light dark;
  --page: #ffffff; --text: #1d2430; --muted: #5c6572; --rule: #e3e6eb; --soft: #f5f6f8;
  --mark: #fff3d1; --heat: #2563c9; --link: #1f5bb8;
  --shade: #c3c9d2;
  --c0: #2563c9; --c1: #e8650a; --c2: #0aa583; --c3: #7b043c;
  --c4: #8e86da; --c5: #ba1700; --c6: #2f3483; --c7: #8a537b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171c; --text: #e4e7ec; --muted: #a0a9b7; --rule: #2b313a; --soft: #1c2027;
    --mark: #453a17; --heat: #4a80d6; --link: #8ab4f8;
    --shade: #3a4350;
    --c0: #6ea2f2; --c1: #f59a4c; --c2: #9cddaf; --c3: #8553c8;
    --c4: #bacaff; --c5: #388015; --c6: #b28b94; --c7: #447176;
  }
}
@media print {
  :root {
    color-scheme: light;
    --page: #ffffff; --text: #1d2430; --muted: #5c6572; --rule: #e3e6eb; --soft: #f5f6f8;
    --mark: #fff3d1; --heat: #2563c9; --link: #1d2430;
    --shade: #c3c9d2;
    --c0: #2563c9; --c1: #e8650a; --c2: #0aa583; --c3: #7b043c;
    --c4: #8e86da; --c5: #ba1700; --c6: #2f3483; --c7: #8a537b;
  }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
  overflow-wrap: break-word;
}
main { max-width: 1000px; margin: 0 auto; padding: 28px 20px 48px; }
a { color: var(--link); }
h1 { font-size: 25px; line-height: 1.25; margin: 0 0 8px; overflow-wrap: anywhere; }
h2 { font-size: 19px; margin: 40px 0 2px; scroll-margin-top: 12px; }
h3 { font-size: 15px; margin: 22px 0 6px; }
nav { display: flex; flex-wrap: wrap; gap: 2px 16px; margin: 6px 0 10px; font-size: 14px; }
nav a { text-decoration: none; }
nav a:hover, nav a:focus-visible { text-decoration: underline; }
.switches {
  border: 1px solid var(--rule); border-radius: 6px; margin: 10px 0; padding: 4px 12px 8px;
  display: flex; flex-wrap: wrap; gap: 2px 18px; font-size: 13px;
}
.switches legend { color: var(--muted); padding: 0 4px; }
.switches label { cursor: pointer; }
.switches input { margin: 0 6px 0 0; vertical-align: -2px; accent-color: var(--muted); }
.note { color: var(--muted); margin: 0 0 12px; max-width: 46em; }
.findings { margin: 10px 0 14px; padding-left: 20px; max-width: 50em; }
.scroll {
  overflow-x: auto; margin: 10px 0 16px;
  /* A shadow at an edge beyond which there is more. */
  background:
    linear-gradient(to right, var(--page) 50%, transparent) 0 0 / 48px 100% no-repeat local,
    linear-gradient(to left, var(--page) 50%, transparent) 100% 0 / 48px 100% no-repeat local,
    linear-gradient(to left, var(--shade), transparent) 100% 0 / 18px 100% no-repeat scroll;
}
.scroll::-webkit-scrollbar { height: 8px; }
.scroll::-webkit-scrollbar-thumb { background: var(--rule); border-radius: 4px; }
table { border-collapse: separate; border-spacing: 0; font-size: 14px; }
th, td { text-align: left; padding: 5px 14px 5px 0; border-bottom: 1px solid var(--rule); }
th { font-weight: 600; color: var(--muted); vertical-align: bottom; }
td { vertical-align: top; }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--page); }
.numeric td:not(:first-child) { font-variant-numeric: tabular-nums; white-space: nowrap; }
.numeric td:not(:first-child), .numeric th:not(:first-child) { text-align: right; }
tr.total td:first-child { font-weight: 600; }
tr.total td { background: var(--soft); }
#configuration td, #configuration th code { overflow-wrap: anywhere; }
#configuration td { min-width: 8em; }
tr.muted td { color: var(--muted); }
details tr.differs td { background: var(--mark); }
.interval { color: var(--muted); font-size: 11.5px; font-weight: 400; }
code, pre { font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
pre {
  background: var(--soft); border: 1px solid var(--rule); border-radius: 6px; padding: 12px 14px;
  white-space: pre-wrap; overflow-wrap: anywhere; margin: 6px 0 14px;
}
summary { cursor: pointer; color: var(--muted); margin: 8px 0; }
summary h3 { display: inline; color: var(--text); }
details.facet { border-top: 1px solid var(--rule); margin: 6px 0; }
.path { font-weight: 400; font-size: 12px; overflow-wrap: anywhere; }
/* A short name is one line; a long one must not push the numbers out of sight. */
.run {
  display: inline-block; width: max-content; max-width: min(30em, 80vw); overflow-wrap: anywhere;
  vertical-align: top;
}
th .run { width: auto; }
.numeric td:first-child { min-width: 8em; }
.swatch {
  display: inline-block; width: 18px; height: 5px; margin-right: 6px; vertical-align: 3px;
  background: currentColor;
}
.swatch.dashed {
  background: repeating-linear-gradient(90deg, currentColor 0 5px, transparent 5px 7px);
}
.swatch.dotted {
  background: repeating-linear-gradient(90deg, currentColor 0 2.5px, transparent 2.5px 5px);
}
.legend { display: flex; flex-wrap: wrap; gap: 2px 18px; margin: 8px 0 4px; font-size: 13px; }
.legend span { display: inline-block; overflow-wrap: anywhere; }
svg.plot { display: block; width: 100%; height: auto; margin: 6px 0; }
svg text { fill: var(--muted); font-size: 12px; }
svg text.small { font-size: 10px; }
svg text.label { font-size: 11px; fill: var(--text); }
svg text.cell { font-size: 10px; fill: var(--text); }
.scale { max-width: 340px; }
.grid { stroke: var(--rule); stroke-width: 1; }
.axis { stroke: var(--muted); stroke-width: 1; }
.line { fill: none; stroke: currentColor; stroke-width: 1.8; stroke-linejoin: round; }
.raw { fill: none; stroke: currentColor; stroke-width: 0.6; stroke-opacity: 0.22; }
.leader { fill: none; stroke: currentColor; stroke-width: 1.2; }
.line.dashed, .leader.dashed { stroke-dasharray: 7 3; }
.line.dotted, .leader.dotted { stroke-dasharray: 2 2.5; }
.bar, .dot, .busy { fill: currentColor; }
.bar.dashed { fill-opacity: 0.6; }
.bar.dotted { fill-opacity: 0.35; }
.dashed .dot, .dotted .dot { fill-opacity: 0.35; stroke: currentColor; stroke-width: 1.3; }
.hollow { fill: var(--page); stroke: currentColor; stroke-width: 1.6; }
.range { fill: none; stroke: currentColor; stroke-width: 1.4; }
.whisker { fill: none; stroke: var(--text); stroke-width: 1; stroke-opacity: 0.75; }
.tick { stroke: var(--text); stroke-width: 1.6; stroke-dasharray: 3 2; }
.band { fill: var(--soft); }
.idle { fill: currentColor; fill-opacity: 0.3; }
.lost { fill: var(--page); stroke: currentColor; stroke-width: 1.2; stroke-dasharray: 2 2; }
.incident { fill: var(--text); }
.event { stroke: currentColor; stroke-width: 1; stroke-dasharray: 3 3; }
.mark path { fill: currentColor; }
.heat { fill: var(--heat); }
.bar:hover, .heat:hover, .busy:hover, .dot:hover, .hollow:hover {
  stroke: var(--text); stroke-width: 1.5;
}
.strip { fill: transparent; }
.tip { display: none; pointer-events: none; }
.read:hover .tip { display: inline; }
.tip .box { fill: var(--page); fill-opacity: 0.94; stroke: var(--rule); rx: 4px; }
.tip text { font-size: 11px; fill: var(--text); }
.tip circle { fill: currentColor; }
.tip .rule { stroke: var(--muted); stroke-width: 1; }
.c0 { color: var(--c0); } .c1 { color: var(--c1); } .c2 { color: var(--c2); }
.c3 { color: var(--c3); } .c4 { color: var(--c4); } .c5 { color: var(--c5); }
.c6 { color: var(--c6); } .c7 { color: var(--c7); }
.rest { color: var(--muted); fill-opacity: 0.5; }
.grid2, .maps {
  display: grid; gap: 8px 24px;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr));
}
.narrow { display: none; }
figure { margin: 0; }
figcaption { font-size: 13px; color: var(--muted); }
footer {
  margin-top: 44px; border-top: 1px solid var(--rule); color: var(--muted); font-size: 13px;
}
@media screen and (max-width: 640px) {
  main { padding: 18px 12px 32px; }
  .wide { display: none; }
  .narrow { display: block; }
  td .run { width: auto; }
  th:first-child, td:first-child { max-width: 42vw; }
}
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
@media print {
  main { max-width: none; padding: 0; }
  nav, .switches, .tip, .strip { display: none; }
  h2, h3, summary, .note, .legend { break-after: avoid; }
  svg.plot, figure, tr, pre { break-inside: avoid; }
  .scroll { overflow: visible; background: none; }
  details::details-content { content-visibility: visible; display: block; height: auto; }
  table { font-size: 11px; }
  th, td { padding-right: 8px; }
  .run { width: auto; }
  thead { display: table-header-group; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
)css";

}  // namespace braid
