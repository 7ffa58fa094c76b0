/** GPU amounts: decimal text at the edges, integer milli-GPU for comparing. */

const FRACTIONS = ['0.1', '0.2', '0.25', '0.5', '0.75'] as const;
/** Whole amounts offered one by one; beyond that in powers of two, so that the list stays short. */
const DENSE = 8;

/** "0.25" is 250; null when it is no amount. */
export function milli(text: string): number | null {
  return /^\d+(\.\d{1,3})?$/.test(text.trim()) ? Math.round(Number(text) * 1000) : null;
}

/** "CPU only", "0.25 GPU", "1 GPU", "2 GPUs". */
export function gpuWords(gpus: string): string {
  const amount = milli(gpus);
  if (amount === 0) {
    return 'CPU only';
  }
  return amount !== null && amount > 1000 ? `${gpus} GPUs` : `${gpus} GPU`;
}

/** "1 CPU core", "4 CPU cores". */
export function coreWords(cpus: string): string {
  return `${cpus} CPU ${milli(cpus) === 1000 ? 'core' : 'cores'}`;
}

/** What can be asked for: nothing, the fractions, and whole devices up to `largest`. */
export function choices(largest: string): string[] {
  const most = milli(largest) ?? 0;
  const whole: string[] = [];
  for (let count = 1; count * 1000 <= most; count = count < DENSE ? count + 1 : count * 2) {
    whole.push(String(count));
  }
  const top = String(Math.floor(most / 1000));
  if (most >= 1000 && !whole.includes(top)) {
    whole.push(top);
  }
  return ['0', ...FRACTIONS.filter(fraction => (milli(fraction) ?? 0) <= most), ...whole];
}

/** Share of a total for a bar, 0 to 1. */
export function portion(part: string, whole: string): number {
  const total = milli(whole) ?? 0;
  return total === 0 ? 0 : Math.min(1, (milli(part) ?? 0) / total);
}
