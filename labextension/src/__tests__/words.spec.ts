import { readFileSync } from 'fs';
import { resolve } from 'path';

import { listGpuChoices, formatGpus, parseMilli, computePortion } from '../amounts';
import { describeNotebook } from '../jobs';
import { describeShare, formatKept, formatShare, formatSuspension, formatWarning } from '../live/share';
import { stripControls } from '../plain';
import {
  formatAge,
  formatCountdown,
  formatDuration,
  formatMinutes,
  formatEstimate,
  formatExact,
  formatSpan,
  parseSpan
} from '../times';
import type { SuspensionView } from '../wire';
import { ENGLISH, aNotebook, aSuspension } from './builders';

/** Seconds with their texts; `tests/unit/commands/test_tables.py` reads the same file. */
const ESTIMATES = JSON.parse(
  readFileSync(resolve(__dirname, '../../../tests/data/estimates.json'), 'utf-8')
) as [number, string][];

describe('amounts', () => {
  it('are integers inside', () => {
    expect(['0', '0.25', '1', '2', 'abc', '', '0.1234'].map(parseMilli)).toEqual([
      0,
      250,
      1000,
      2000,
      null,
      null,
      null
    ]);
  });

  it('are offered up to the largest request', () => {
    expect(listGpuChoices('0')).toEqual(['0']);
    expect(listGpuChoices('0.5')).toEqual(['0', '0.1', '0.2', '0.25', '0.5']);
    expect(listGpuChoices('2').slice(-3)).toEqual(['0.75', '1', '2']);
    expect(listGpuChoices('20').slice(-4)).toEqual(['7', '8', '16', '20']);
  });

  it('have words and bars', () => {
    expect(['0', '0.5', '1', '4'].map(gpus => formatGpus(gpus, ENGLISH))).toEqual([
      'CPU only',
      '0.5 GPU',
      '1 GPU',
      '4 GPUs'
    ]);
    expect([computePortion('0.25', '0.5'), computePortion('2', '1'), computePortion('1', '0')]).toEqual([
      0.5, 1, 0
    ]);
  });
});

describe('names', () => {
  it('have no characters that hide or reorder them', () => {
    expect(stripControls('über/night\u202erun\u0085\u001b.ipynb 🔥')).toBe('über/nightrun.ipynb 🔥');
  });
});

describe('times', () => {
  it('are the same after they stood in a field', () => {
    const spans = [1, 3.5, 60, 60.1, 93000, 93001.25, 3600, 86399, 86400, 400 * 86400 + 7];
    expect(spans.map(span => parseSpan(formatExact(span)))).toEqual(spans);
    expect([3.5, 93000, 93001.25, 90000, 5400].map(formatExact)).toEqual([
      '3.5 s',
      '1 d 1 h 50 min',
      '1 d 1 h 50 min 1.25 s',
      '1 d 1 h',
      '1 h 30 min'
    ]);
  });

  it('have two units at most', () => {
    expect([4, 60, 123, 3600, 3900, 90000].map(formatSpan)).toEqual([
      '4 s',
      '1 min',
      '2 min 3 s',
      '1 h',
      '1 h 5 min',
      '1 d 1 h'
    ]);
    expect([0.01, 1.24, 12, 100].map(formatDuration)).toEqual(['< 0.1 s', '1.2 s', '12 s', '1 min 40 s']);
    expect([3, 40, 130, 7300, 200000].map(seconds => formatAge(0, seconds, ENGLISH))).toEqual([
      'just now',
      '40 s ago',
      '2 min ago',
      '2 h ago',
      '2 d ago'
    ]);
    expect([59, 60, 3599, 3700].map(formatMinutes)).toEqual(['0 min', '1 min', '59 min', '1 h 1 min']);
    expect([0, 7, 247, 3723, -5].map(formatCountdown)).toEqual(['0:00', '0:07', '4:07', '1:02:03', '0:00']);
  });
});

describe('the share of this server', () => {
  it('says what is known and leaves out what is not', () => {
    expect(formatShare(aNotebook(), 0, ENGLISH)).toBe('GPU 0.5');
    expect(formatShare(aNotebook({ idle_since: 0 }), 725, ENGLISH)).toBe('GPU 0.5 · idle 12 min');
    expect(formatShare(aNotebook({ memory_quota_mib: 10240, memory_used_mib: 6247 }), 0, ENGLISH)).toBe(
      'GPU 0.5 · 6.1 / 10 GiB'
    );
    expect(formatShare(aNotebook({ gpus: '0' }), 0, ENGLISH)).toBe('CPU only');
  });

  it('is lent or comes back, with the sentence of the service in the tooltip', () => {
    const suspended = aNotebook({ phase: 'suspended', sentence: 'Lent to bob.', memory_used_mib: 1 });
    expect(formatShare(suspended, 0, ENGLISH)).toBe('GPU 0.5 · lent, comes back with the next cell');
    expect(formatShare({ ...suspended, phase: 'resuming' }, 0, ENGLISH)).toBe('GPU 0.5 · coming back');
    expect(describeShare(aNotebook({ suspension_refusal: 'No host memory.' }), ENGLISH)).toContain(
      'idle: No host memory. Click'
    );
    expect(describeShare(suspended, ENGLISH)).toMatch(/^Lent to bob\. Click/);
  });

  it('is waited for by a cell, with its place in line, or with what has to leave first', () => {
    const wait = (more: Partial<SuspensionView>): string =>
      formatShare(aNotebook({ phase: 'suspended', suspension: aSuspension(more) }), 0, ENGLISH);
    expect(wait({})).toBe('GPU 0.5 · lent, comes back with the next cell');
    expect(wait({ wanted: true, position: 2, leaving: 2 })).toBe('GPU 0.5 · a cell waits, 2nd in line');
    expect(wait({ wanted: true, position: 1, leaving: 2 })).toBe('GPU 0.5 · a cell waits, 2 jobs make room');
    expect(wait({ wanted: true, position: 1, leaving: 1 })).toBe('GPU 0.5 · a cell waits, 1 job makes room');
    expect(wait({ wanted: true })).toBe('GPU 0.5 · a cell waits');
    const old = { ...aSuspension(), wanted: undefined } as unknown as SuspensionView;
    expect(formatShare(aNotebook({ phase: 'suspended', suspension: old }), 0, ENGLISH)).toContain(
      'next cell'
    );
  });

  it('says its place in line and what has to leave in the tooltip and in the panel', () => {
    const sentence = 'A cell waits. The share has place 2 in line: 2 jobs make room.';
    const waits = aNotebook({
      phase: 'suspended',
      sentence,
      suspension: aSuspension({ wanted: true, position: 2 })
    });
    expect(describeShare(waits, ENGLISH)).toContain(sentence);
    expect(describeNotebook(waits, 0, ENGLISH)).toBe(sentence);
  });

  it('has a limit with a level, and what that means, in the tooltip', () => {
    const watched = aNotebook({ enforcement: 'cooperative', enforcement_sentence: 'Frameworks keep it.' });
    expect(describeShare(watched, ENGLISH)).toContain('Memory limit: cooperative. Frameworks keep it. Click');
    expect(describeShare(aNotebook(), ENGLISH)).not.toContain('limit');
  });

  it('is kept until a time of day, while that is to come', () => {
    const kept = aNotebook({ idle_since: 0, kept_until: 1000 });
    expect(formatShare(kept, 999, ENGLISH)).toMatch(/^GPU 0\.5 · idle 16 min · kept until .+$/);
    expect(formatShare(kept, 1000, ENGLISH)).toBe('GPU 0.5 · idle 16 min');
    expect(formatKept(kept, 999, ENGLISH)).toMatch(/^Your share is kept until .+\.$/);
  });

  it('has a notification that fits, for whom it was lent', () => {
    const long = `Suspended: ${'very '.repeat(40)}long.`;
    const told = formatSuspension(aNotebook({ phase: 'suspended', sentence: long }), ENGLISH);
    expect(told.length).toBeLessThanOrEqual(140);
  });

  it('is counted down to an absolute time, first in the message', () => {
    const warning = { expire_at: 1000, sentence: 'Bob waits.', keep_seconds: 0 };
    expect(formatWarning(aNotebook({ warning }), 753, ENGLISH)).toMatch(
      /^Your share is taken at .+, in 4:07\. Bob waits\.$/
    );
    expect(formatWarning(aNotebook({ warning }), 1001, ENGLISH)).toMatch(/being taken now/);
    const long = {
      ...warning,
      sentence: `Carol ${'really '.repeat(10)}waits. Run a cell, or press Keep it.`
    };
    expect(formatWarning(aNotebook({ warning: long }), 753, ENGLISH)).toMatch(/waits\.$/);
  });

  it.each([
    'Your server stops: variables are lost, files are kept.',
    'Nothing is lost: the GPU is lent until your next cell.'
  ])('says what is lost, and what prevents that, in one notification: %s', lost => {
    const prevented = 'Run a cell or press Keep it to keep it.';
    const sentence = `${lost} ${prevented} Idle for 25 min, and carol's server (0.5 GPU) waits for its share.`;
    const told = formatWarning(
      aNotebook({ warning: { expire_at: 1300, sentence, keep_seconds: 1800 } }),
      700,
      ENGLISH
    );
    expect(told).toContain(`in 10:00. ${lost} ${prevented}`);
    expect(told.length).toBeLessThanOrEqual(140);
  });

  it('are estimated as on the command line', () => {
    expect(ESTIMATES.map(([seconds]) => [seconds, formatEstimate(seconds)])).toEqual(ESTIMATES);
  });
});
