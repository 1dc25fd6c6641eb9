#include "trainer/report/report_style.h"

namespace braid {

const char kReportStyle[] = R"css(
:root {
  color-scheme: light dark;
  --page: #ffffff; --text: #1d2430; --muted: #626b79; --rule: #e3e6eb; --soft: #f5f6f8;
  --mark: #fff3d1; --heat: #2f6fd0;
  --c0: #2f6fd0; --c1: #d9541e; --c2: #16896b; --c3: #9a3fa8;
  --c4: #a97800; --c5: #4a9fc9; --c6: #c2255c; --c7: #6b7280;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171c; --text: #e4e7ec; --muted: #98a1b0; --rule: #2b313a; --soft: #1c2027;
    --mark: #453a17; --heat: #5b95ee;
    --c0: #6ea2f2; --c1: #f08a5d; --c2: #4cc3a0; --c3: #cf86da;
    --c4: #dcb24a; --c5: #7fcbee; --c6: #f0709c; --c7: #a3abb8;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
main { max-width: 980px; margin: 0 auto; padding: 28px 20px 48px; }
h1 { font-size: 25px; line-height: 1.25; margin: 0 0 8px; overflow-wrap: anywhere; }
h2 { font-size: 19px; margin: 40px 0 2px; }
h3 { font-size: 15px; margin: 22px 0 6px; }
.note { color: var(--muted); margin: 0 0 12px; max-width: 46em; }
.scroll { overflow-x: auto; margin: 10px 0 16px; }
table { border-collapse: collapse; font-size: 14px; }
th, td { text-align: left; padding: 5px 14px 5px 0; border-bottom: 1px solid var(--rule); }
th { font-weight: 600; color: var(--muted); vertical-align: bottom; }
td { vertical-align: top; }
.numeric td:not(:first-child) { font-variant-numeric: tabular-nums; white-space: nowrap; }
.numeric td:not(:first-child), .numeric th:not(:first-child) { text-align: right; }
tr.total td { font-weight: 600; }
tr.muted td { color: var(--muted); }
details tr.differs td { background: var(--mark); }
code, pre { font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
pre {
  background: var(--soft); border: 1px solid var(--rule); border-radius: 6px; padding: 12px 14px;
  white-space: pre-wrap; overflow-wrap: anywhere; margin: 6px 0 14px;
}
summary { cursor: pointer; color: var(--muted); margin: 8px 0; }
.path { font-weight: 400; font-size: 12px; overflow-wrap: anywhere; }
.run { white-space: nowrap; }
th .run { white-space: normal; }
.numeric td:first-child { min-width: 8em; }
.swatch {
  display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 6px;
  background: currentColor;
}
.swatch.dashed { border-radius: 50%; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 18px; margin: 8px 0 4px; font-size: 13px; }
.legend span { display: inline-block; }
svg { display: block; width: 100%; height: auto; margin: 6px 0; }
svg text { fill: var(--muted); font-size: 12px; }
svg text.small { font-size: 10px; }
svg text.cell { font-size: 10px; fill: var(--text); }
svg text.strong { fill: var(--page); }
.grid { stroke: var(--rule); stroke-width: 1; }
.line { fill: none; stroke: currentColor; stroke-width: 1.8; stroke-linejoin: round; }
.line.dashed { stroke-dasharray: 6 4; }
.bar { fill: currentColor; }
.bar.dashed { fill-opacity: 0.55; }
.heat { fill: var(--heat); }
.hover { fill: var(--text); fill-opacity: 0; }
.hover:hover { fill-opacity: 0.25; }
.c0 { color: var(--c0); } .c1 { color: var(--c1); } .c2 { color: var(--c2); }
.c3 { color: var(--c3); } .c4 { color: var(--c4); } .c5 { color: var(--c5); }
.c6 { color: var(--c6); } .c7 { color: var(--c7); }
.grid2, .maps { display: grid; gap: 8px 24px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); }
figure { margin: 0; }
figcaption { font-size: 13px; color: var(--muted); }
footer { margin-top: 44px; border-top: 1px solid var(--rule); color: var(--muted); font-size: 13px; }
@media (max-width: 640px) {
  main { padding: 18px 12px 32px; }
  svg text { font-size: 13.5px; }
}
@media print { details > * { display: block; } section { break-inside: avoid; } }
)css";

}  // namespace braid
