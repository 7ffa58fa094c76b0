/** Times as text. Instants are seconds since the epoch, spans are seconds. Units are symbols, the same in all languages. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { BLANKS, trimBlanks } from './plain';

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86400;

/** Return a span in at most two units: "4 s", "2 min 3 s", "1 h 5 min", "3 d 2 h". */
export function formatSpan(seconds: number): string {
  const total = Math.max(0, Math.round(seconds));
  if (total < MINUTE) {
    return `${total} s`;
  }
  if (total < HOUR) {
    return joinUnits(Math.floor(total / MINUTE), 'min', total % MINUTE, 's');
  }
  if (total < DAY) {
    return joinUnits(Math.floor(total / HOUR), 'h', Math.floor((total % HOUR) / MINUTE), 'min');
  }
  return joinUnits(Math.floor(total / DAY), 'd', Math.floor((total % DAY) / HOUR), 'h');
}

function joinUnits(big: number, bigUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${big} ${bigUnit}` : `${big} ${bigUnit} ${small} ${smallUnit}`;
}

/** Return a span with all of its units, for a field: "1 d 1 h 50 min", "3.5 s". `parseSpan` reads the same span from it. */
export function formatExact(seconds: number): string {
  const [whole, decimals] = String(seconds).split('.');
  const total = Number(whole);
  const rest = decimals === undefined ? `${total % MINUTE}` : `${total % MINUTE}.${decimals}`;
  const parts: [string, string][] = [
    [`${Math.floor(total / DAY)}`, 'd'],
    [`${Math.floor((total % DAY) / HOUR)}`, 'h'],
    [`${Math.floor((total % HOUR) / MINUTE)}`, 'min'],
    [rest, 's']
  ];
  const written = parts.filter(([count]) => count !== '0').map(([count, unit]) => `${count} ${unit}`);
  return written.length === 0 ? '0 s' : written.join(' ');
}

const UNITS: Readonly<Record<string, number>> = { s: 1, m: MINUTE, h: HOUR, d: DAY };
/** A number with its unit. `jupyter_gq/notebook/durations.py` reads the same texts. */
const PART = new RegExp(
  `(\\d+(?:\\.\\d+)?)[${BLANKS}]*(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)(?![a-z])`,
  'gi'
);
/** Most characters of such a text, without spaces around it. */
const MOST_CHARACTERS = 60;

/** Return the seconds of a text such as "45 min", "2 h 30 min" or "1.5 days"; null if the text is not a span. */
export function parseSpan(text: string): number | null {
  const parts = trimBlanks(text).length <= MOST_CHARACTERS ? [...text.matchAll(PART)] : [];
  if (parts.length === 0 || trimBlanks(text.replace(PART, '')) !== '') {
    return null;
  }
  const seconds = parts.reduce(
    (sum, [, count, unit]) => sum + Number(count) * UNITS[unit[0].toLowerCase()],
    0
  );
  return seconds > 0 ? seconds : null;
}

/** Return the duration of a cell, with tenths of a second below ten seconds: "< 0.1 s", "1.2 s", "1 min 40 s". */
export function formatDuration(seconds: number): string {
  if (seconds < 0.1) {
    return '< 0.1 s';
  }
  return seconds < 10 ? `${seconds.toFixed(1)} s` : formatSpan(seconds);
}

/** Return the age of an instant: "just now", "4 min ago", "2 h ago", "3 d ago". */
export function formatAge(instant: number, now: number, trans: TranslationBundle): string {
  const seconds = Math.max(0, now - instant);
  if (seconds < 10) {
    return trans.__('just now');
  }
  if (seconds < MINUTE) {
    return trans.__('%1 s ago', Math.floor(seconds));
  }
  if (seconds < HOUR) {
    return trans.__('%1 min ago', Math.floor(seconds / MINUTE));
  }
  return seconds < DAY
    ? trans.__('%1 h ago', Math.floor(seconds / HOUR))
    : trans.__('%1 d ago', Math.floor(seconds / DAY));
}

/** Return a span in whole minutes, such as "12 min": seconds in the status bar would only flicker. */
export function formatMinutes(seconds: number): string {
  return seconds < HOUR
    ? `${Math.max(0, Math.floor(seconds / MINUTE))} min`
    : formatSpan(seconds - (seconds % MINUTE));
}

/** Return an estimated span, rounded up so that it does not promise too much: "1 min", "15 min", "2 h 30 min". */
export function formatEstimate(seconds: number): string {
  const [unit] = [
    [10 * MINUTE, MINUTE],
    [HOUR, 5 * MINUTE],
    [4 * HOUR, 30 * MINUTE],
    [DAY, HOUR],
    [Infinity, DAY]
  ]
    .filter(([below]) => seconds <= below)
    .map(([, step]) => step);
  return formatSpan(Math.max(1, Math.ceil(seconds / unit)) * unit);
}

/** Return the time left as a clock shows it, such as "4:07" or "1:02:03"; never less than "0:00". */
export function formatCountdown(seconds: number): string {
  const total = Math.max(0, Math.ceil(seconds));
  const two = (value: number): string => String(value).padStart(2, '0');
  const head =
    total >= HOUR
      ? `${Math.floor(total / HOUR)}:${two(Math.floor((total % HOUR) / MINUTE))}`
      : `${Math.floor(total / MINUTE)}`;
  return `${head}:${two(total % MINUTE)}`;
}

/** Return an instant as a time of day, such as "14:20", with the date if the day is not that of `now`, and its year. */
export function formatClock(instant: number, now: number): string {
  const [date, today] = [new Date(instant * 1000), new Date(now * 1000)];
  const time = date.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
  if (date.toDateString() === today.toDateString()) {
    return time;
  }
  const year = date.getFullYear() === today.getFullYear() ? undefined : 'numeric';
  return `${date.toLocaleDateString([], { day: 'numeric', month: 'short', year })}, ${time}`;
}

/** A time as the service writes it, such as "2026-11-27 06:12 UTC". */
const SERVICE_TIME = /\b(\d{4}-\d\d-\d\d) (\d\d:\d\d) UTC\b/g;

/** Return a sentence of the service with its times as a clock here shows them. */
export function showLocalTimes(sentence: string, now: number): string {
  return sentence.replace(SERVICE_TIME, (written, day: string, time: string) => {
    const instant = Date.parse(`${day}T${time}Z`) / 1000;
    return Number.isNaN(instant) ? written : formatClock(instant, now);
  });
}

/** Return an instant with date and time, for a tooltip. */
export function formatInstant(instant: number): string {
  return new Date(instant * 1000).toLocaleString();
}
