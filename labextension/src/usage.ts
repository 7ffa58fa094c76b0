/** The GPU use of a job: lines of its chart, and words. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { formatGibibytes } from './jobs';
import { formatClock, formatSpan } from './times';
import type { JobSummary, JobUsage, UsagePoint } from './wire';

/** Width and height of the drawing, in its own units; it is stretched to the room that it has. */
export const WIDTH = 240;
export const HEIGHT = 40;
/** Room above and below the lines, so that they are not cut. */
const MARGIN = 2;
/** Seconds by which the first sample may follow the start of the run, before the page says that earlier ones are lost. */
const LATE = 120;

/** Which figure of a point a line shows. */
type Figure = (point: UsagePoint) => number | null;

/** The path of each line of the chart. A time in which nothing was known is a gap. */
export interface IUsagePaths {
  readonly use: string;
  readonly memory: string;
}

/** Return the lines of the chart: the mean utilisation out of 100 %, and the memory out of its limit. */
export function makePaths(usage: JobUsage): IUsagePaths {
  const most = usage.memory_limit_mib ?? Math.max(1, ...usage.points.map(point => point.memory_mib ?? 0));
  return {
    use: makePath(usage, point => point.utilisation, 100),
    memory: makePath(usage, point => point.memory_mib, most)
  };
}

/** Return the path of a figure as steps, from the first point at the left to the end of the last one at the right. */
function makePath({ points, seconds }: JobUsage, figure: Figure, most: number): string {
  const start = points[0]?.at ?? 0;
  const span = computeSpan(points, seconds);
  const place = (instant: number): string => (((instant - start) / span) * WIDTH).toFixed(1);
  const parts: string[] = [];
  let end: number | null = null;
  for (const point of points) {
    const value = figure(point);
    if (value === null) {
      continue;
    }
    const y = (HEIGHT - MARGIN - Math.min(1, value / most) * (HEIGHT - 2 * MARGIN)).toFixed(1);
    parts.push(`${end === point.at ? 'L' : 'M'}${place(point.at)} ${y}H${place(point.at + seconds)}`);
    end = point.at + seconds;
  }
  return parts.join('');
}

/** Return the seconds that points stand for together, at least one. */
function computeSpan(points: readonly UsagePoint[], seconds: number): number {
  return points.length === 0 ? 1 : points[points.length - 1].at + seconds - points[0].at;
}

/** Return what the chart shows in words, for people who do not see it; figures that are not known are left out. */
export function describeChart(usage: JobUsage, trans: TranslationBundle): string {
  const parts = [
    trans.__('GPU use over %1.', formatSpan(computeSpan(usage.points, usage.seconds))),
    describeUse(usage, trans),
    describeMemory(usage, trans)
  ];
  return parts.filter(part => part !== '').join(' ');
}

/** Return the utilisation in words, such as "GPU: 87 % last, 64 % on average, 98 % at most."; "" if it is not known. */
export function describeUse({ points }: JobUsage, trans: TranslationBundle): string {
  const [means, highest] = [pick(points, point => point.utilisation), pick(points, point => point.highest)];
  if (means.length === 0) {
    return '';
  }
  const mean = means.reduce((sum, value) => sum + value, 0) / means.length;
  const [last, average, most] = [means[means.length - 1], mean, Math.max(...highest)].map(
    value => `${Math.round(value)} %`
  );
  return trans.__('GPU: %1 last, %2 on average, %3 at most.', last, average, most);
}

/** Return the memory in words, such as "Memory: 12 of 40 GiB last, 14 GiB at most."; "" if it is not known. */
export function describeMemory(
  { points, memory_limit_mib: limit }: JobUsage,
  trans: TranslationBundle
): string {
  const found = pick(points, point => point.memory_mib);
  if (found.length === 0) {
    return '';
  }
  const [last, most] = [found[found.length - 1], Math.max(...found)].map(formatGibibytes);
  return limit === null
    ? trans.__('Memory: %1 GiB last, %2 GiB at most.', last, most)
    : trans.__('Memory: %1 of %2 GiB last, %3 GiB at most.', last, formatGibibytes(limit), most);
}

function pick(points: readonly UsagePoint[], figure: Figure): number[] {
  return points.map(figure).filter((value): value is number => value !== null);
}

/** Return a sentence if the use is not known from the start of the run on, as after a restart of the service; else "". */
export function describeMissing(
  job: JobSummary,
  usage: JobUsage,
  now: number,
  trans: TranslationBundle
): string {
  const [{ since, run }, began] = [usage, job.running_since];
  return since === null || began === null || run !== job.run || since - began <= LATE
    ? ''
    : trans.__('Known since %1 only.', formatClock(since, now));
}
