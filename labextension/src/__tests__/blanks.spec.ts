import { readFileSync } from 'fs';
import { resolve } from 'path';

import { parseMilli, readDevices } from '../amounts';
import { trimBlanks } from '../plain';
import { readDuration } from '../send/duration';
import { readTaskFields } from '../send/tasks';
import { addUnit, readPriority } from '../send/values';
import { ENGLISH } from './builders';

/** Spaces of Unicode and characters without a width; tests in `tests/unit` read the same file. */
const BLANKS = JSON.parse(
  readFileSync(resolve(__dirname, '../../../tests/data/blanks.json'), 'utf-8')
) as string[];

describe.each(BLANKS)('the blank %j around what a person means', blank => {
  const around = (text: string): string => `${blank}${blank}${text}${blank}`;

  it('changes no text', () => {
    expect(trimBlanks(around('a b'))).toBe('a b');
    expect(trimBlanks(around(''))).toBe('');
  });

  it('changes no number', () => {
    expect(parseMilli(around('0.25'))).toBe(250);
    expect(readTaskFields({ tasks: around('4'), minTasks: around('2') }, ENGLISH)).toEqual({
      tasks: 4,
      min_tasks: 2
    });
    expect(readTaskFields({ tasks: around(''), minTasks: around('') }, ENGLISH)).toEqual({
      tasks: 1,
      min_tasks: null
    });
    expect(readPriority(around('-3'), { maxPriority: 0 }, 'vision', ENGLISH)).toBe(-3);
  });

  it('changes no amount with its unit', () => {
    expect(readDevices(around(`12${blank}GB`))).toEqual({ gpu_memory: `12${blank}GB` });
    expect(addUnit(around('16'))).toBe('16 GiB');
  });

  it('changes no length of time', () => {
    expect(readDuration(around(`2${blank}h${blank}5${blank}min`), 'max_seconds', ENGLISH)).toBe(7500);
    expect(readDuration(around(''), 'max_seconds', ENGLISH)).toBeNull();
  });
});
