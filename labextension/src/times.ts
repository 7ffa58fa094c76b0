/** Times and spans in words. Instants are seconds since the epoch, spans are seconds. */

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86400;

/** "4 s", "2 min 3 s", "1 h 5 min", "3 d 2 h": two units at most. */
export function span(seconds: number): string {
  const total = Math.max(0, Math.round(seconds));
  if (total < MINUTE) {
    return `${total} s`;
  }
  if (total < HOUR) {
    return pair(Math.floor(total / MINUTE), 'min', total % MINUTE, 's');
  }
  if (total < DAY) {
    return pair(Math.floor(total / HOUR), 'h', Math.floor((total % HOUR) / MINUTE), 'min');
  }
  return pair(Math.floor(total / DAY), 'd', Math.floor((total % DAY) / HOUR), 'h');
}

function pair(big: number, bigUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${big} ${bigUnit}` : `${big} ${bigUnit} ${small} ${smallUnit}`;
}

const UNITS: Readonly<Record<string, number>> = { s: 1, m: MINUTE, h: HOUR, d: DAY };
const PART = /(\d+(?:\.\d+)?)\s*(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)(?![a-z])/gi;

/** Seconds of "45 min", "2 h 30 min", "1.5 days"; null when it is no length of time. */
export function parsedSpan(text: string): number | null {
  const parts = [...text.matchAll(PART)];
  if (parts.length === 0 || text.replace(PART, '').trim() !== '') {
    return null;
  }
  const seconds = parts.reduce(
    (sum, [, count, unit]) => sum + Number(count) * UNITS[unit[0].toLowerCase()],
    0
  );
  return seconds > 0 ? seconds : null;
}

/** How long a cell took: finer than `span` below ten seconds. */
export function duration(seconds: number): string {
  if (seconds < 0.1) {
    return '< 0.1 s';
  }
  return seconds < 10 ? `${seconds.toFixed(1)} s` : span(seconds);
}

/** "just now", "4 min ago", "2 h ago", "3 d ago". */
export function ago(instant: number, now: number): string {
  const seconds = Math.max(0, now - instant);
  if (seconds < 10) {
    return 'just now';
  }
  if (seconds < MINUTE) {
    return `${Math.floor(seconds)} s ago`;
  }
  if (seconds < HOUR) {
    return `${Math.floor(seconds / MINUTE)} min ago`;
  }
  return seconds < DAY ? `${Math.floor(seconds / HOUR)} h ago` : `${Math.floor(seconds / DAY)} d ago`;
}

/** "12 min" of idleness: whole minutes, since seconds would only flicker. */
export function minutes(seconds: number): string {
  return seconds < HOUR
    ? `${Math.max(0, Math.floor(seconds / MINUTE))} min`
    : span(seconds - (seconds % MINUTE));
}

/** "1 min", "15 min", "2 h 30 min", "3 d": an estimate, rounded up so that it does not promise too much. */
export function roughly(seconds: number): string {
  const [unit] = [
    [10 * MINUTE, MINUTE],
    [HOUR, 5 * MINUTE],
    [4 * HOUR, 30 * MINUTE],
    [DAY, HOUR],
    [Infinity, DAY]
  ]
    .filter(([below]) => seconds <= below)
    .map(([, step]) => step);
  return span(Math.max(1, Math.ceil(seconds / unit)) * unit);
}

/** "4:07", "1:02:03": what is left until an instant. */
export function countdown(seconds: number): string {
  const total = Math.max(0, Math.ceil(seconds));
  const two = (value: number): string => String(value).padStart(2, '0');
  const head =
    total >= HOUR
      ? `${Math.floor(total / HOUR)}:${two(Math.floor((total % HOUR) / MINUTE))}`
      : `${Math.floor(total / MINUTE)}`;
  return `${head}:${two(total % MINUTE)}`;
}

/** "14:20", with the day when that is not today. */
export function clock(instant: number, now: number): string {
  const date = new Date(instant * 1000);
  const time = date.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
  if (date.toDateString() === new Date(now * 1000).toDateString()) {
    return time;
  }
  return `${date.toLocaleDateString([], { day: 'numeric', month: 'short' })}, ${time}`;
}

/** The whole instant, for a tooltip. */
export function absolute(instant: number): string {
  return new Date(instant * 1000).toLocaleString();
}
