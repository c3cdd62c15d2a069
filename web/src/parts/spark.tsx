// Charts, drawn for us: a look is quicker than a column of numbers.
import { count } from '../clock.ts';

const H = 20;

/** A machine's hour: what was sent, and on top, hatched, what was lost. */
export function Spark({ sent, lost }: { sent: number[]; lost: number[] }) {
  const max = Math.max(1, ...sent);
  const total = sent.reduce((a, b) => a + b, 0);
  const gone = lost.reduce((a, b) => a + b, 0);
  const bars = (values: number[], cls: string) => (
    <path
      class={cls}
      d={values
        .map((v, i) => {
          if (!v) return '';
          const h = Math.max(2, (Math.min(v, max) / max) * H);
          return `M${i * 4} ${H}v${-h}h3v${h}z`;
        })
        .join('')}
    />
  );
  return (
    <svg class="spark" viewBox={`0 0 ${sent.length * 4} ${H}`} preserveAspectRatio="none" role="img" aria-label={`last hour: ${total} sent, ${gone} lost`}>
      <path class="axis" d={`M0 ${H - 0.5}h${sent.length * 4}`} />
      {bars(sent, 'sent')}
      {bars(lost, 'lost')}
    </svg>
  );
}

export interface Series {
  name: string;
  values: (number | null)[];
  cls: string;
}

const W = 600;
const T = 120;

function hours(since: string, step: number, n: number): string[] {
  const at = (i: number) => {
    const d = new Date(Date.parse(since) + i * step * 1000);
    return `${String(d.getHours()).padStart(2, '0')}:${String(d.getMinutes()).padStart(2, '0')}`;
  };
  return [at(0), at(Math.floor(n / 2)), 'now'];
}

interface Frame {
  title: string;
  series: Series[];
  since: string;
  step: number;
  top: string;
  sum: string;
  children: preact.ComponentChildren;
}

function Chart({ title, series, since, step, top, sum, children }: Frame) {
  const n = series[0]?.values.length ?? 0;
  return (
    <figure class="chart">
      <figcaption>
        <strong>{title}</strong>
        <span class="legend">
          {series.map((s) => (
            <span key={s.name}>
              <svg class="key" viewBox="0 0 12 12" aria-hidden="true">
                <rect class={s.cls} width="12" height="12" rx="2" />
              </svg>
              {s.name}
            </span>
          ))}
        </span>
      </figcaption>
      <div class="plot">
        <span class="top">{top}</span>
        <svg viewBox={`0 0 ${W} ${T}`} preserveAspectRatio="none" role="img" aria-label={`${title}, last hour: ${sum}`}>
          <path class="grid" d={`M0 .5h${W}M0 ${T / 2}h${W}M0 ${T - 0.5}h${W}`} />
          {children}
        </svg>
      </div>
      <div class="times" aria-hidden="true">
        {hours(since, step, n).map((t) => (
          <span key={t}>{t}</span>
        ))}
      </div>
      <p class="sum">{sum}</p>
    </figure>
  );
}

/** Bars, one a step, stacked. */
export function Bars({ title, series, since, step }: { title: string; series: Series[]; since: string; step: number }) {
  const n = series[0]?.values.length ?? 1;
  const max = Math.max(1, ...Array.from({ length: n }, (_, i) => series.reduce((a, s) => a + (s.values[i] ?? 0), 0)));
  const w = W / n;
  const base = new Array<number>(n).fill(0);
  const sum = series.map((s) => `${count(s.values.reduce<number>((a, b) => a + (b ?? 0), 0))} ${s.name}`).join(', ');
  return (
    <Chart title={title} series={series} since={since} step={step} top={count(max)} sum={sum}>
      {series.map((s) => (
        <path
          key={s.name}
          class={s.cls}
          d={s.values
            .map((v, i) => {
              if (!v) return '';
              const h = Math.max(1.5, (v / max) * (T - 2));
              const y = T - base[i]!;
              base[i]! += h;
              return `M${(i * w).toFixed(1)} ${y.toFixed(1)}v${(-h).toFixed(1)}h${(w * 0.8).toFixed(1)}v${h.toFixed(1)}z`;
            })
            .join('')}
        />
      ))}
    </Chart>
  );
}

const msText = (ms: number | null) => (ms === null ? 'nothing measured' : ms < 1000 ? `${ms < 10 ? Math.round(ms * 10) / 10 : Math.round(ms)} ms` : `${Math.round(ms / 100) / 10} s`);

/** Lines over a scale of powers of ten: from 1 ms to hours, both ends readable. */
export function Latencies(p: { title: string; p50: (number | null)[]; p99: (number | null)[]; all50: number | null; all99: number | null; since: string; step: number }) {
  const all = [...p.p50, ...p.p99].filter((v): v is number => v !== null);
  const low = Math.floor(Math.log10(Math.max(0.1, Math.min(1, ...all))));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(1, ...all))));
  const y = (v: number) => T - 2 - ((Math.log10(Math.max(v, 10 ** low)) - low) / (high - low)) * (T - 4);
  const w = W / Math.max(1, p.p50.length);
  const path = (values: (number | null)[]) =>
    values.map((v, i) => (v === null ? '' : `${i > 0 && values[i - 1] !== null ? 'L' : `M${(i * w).toFixed(1)} ${y(v).toFixed(1)}L`}${((i + 0.8) * w).toFixed(1)} ${y(v).toFixed(1)}`)).join('');
  const series = [
    { name: 'p50', values: p.p50, cls: 'line-50' },
    { name: 'p99', values: p.p99, cls: 'line-99' },
  ];
  const sum = p.all50 === null ? 'nothing measured yet' : `p50 ${msText(p.all50)}, p99 ${msText(p.all99)}`;
  return (
    <Chart title={p.title} series={series} since={p.since} step={p.step} top={msText(10 ** high)} sum={sum}>
      {series.map((s) => (
        <path key={s.name} class={`curve ${s.cls}`} d={path(s.values)} />
      ))}
    </Chart>
  );
}
