import type { IFileChoice } from '../send/files';
import { describeChoice, listUnreached, NO_CHOICE, summarizeFiles, toggleFile } from '../send/files';
import type { FilesPlan } from '../wire';
import { ENGLISH } from './builders';

const GOING = [
  { path: 'net.py', bytes: 2000, why: 'imported' as const },
  { path: 'conf/a.yaml', bytes: 500, why: 'pattern' as const }
];
const LARGE = { path: 'data.csv', bytes: 2_100_000_000, message: 'stays', reached: true };
const plan = (given: Partial<FilesPlan>): FilesPlan => ({
  going: [],
  staying: [],
  notes: [],
  own_folder: false,
  pattern_notes: [],
  ...given
});

describe('the files that go along', () => {
  it('are summed up in one line, with what stays', () => {
    expect(summarizeFiles(plan({}), NO_CHOICE, ENGLISH)).toBe('none go along');
    expect(summarizeFiles(plan({ going: GOING }), NO_CHOICE, ENGLISH)).toBe('2 files, 2.5 kB, go along');
    expect(
      summarizeFiles(plan({ going: GOING, staying: [LARGE] }), toggleFile(NO_CHOICE, 'net.py'), ENGLISH)
    ).toBe('1 file, 500 B, goes along; data.csv (2.1 GB) stays');
    const folder = { ...LARGE, path: 'images', bytes: null };
    expect(summarizeFiles(plan({ staying: [folder, LARGE] }), NO_CHOICE, ENGLISH)).toBe(
      'none go along; images and 1 more stay'
    );
  });

  it('are summed up with the folder, if it is one of its own', () => {
    expect(summarizeFiles(plan({ own_folder: true }), NO_CHOICE, ENGLISH)).toBe(
      'none go along; runs in a folder of its own'
    );
  });

  it('become the fields of a request', () => {
    const choice: IFileChoice = {
      patterns: ' *.yaml, conf/  a.txt',
      leftOut: new Set(['net.py']),
      live: true
    };
    expect(describeChoice(choice)).toEqual({
      file_patterns: ['*.yaml', 'conf/', 'a.txt'],
      left_out_files: ['net.py'],
      live_folder: true
    });
    expect(toggleFile(choice, 'net.py').leftOut.size).toBe(0);
  });

  it('leave out what no job finds, which is said', () => {
    const lost = { ...LARGE, message: '/data.csv is not reachable', reached: false };
    expect(listUnreached(plan({ staying: [LARGE, lost] }))).toEqual(['data.csv: /data.csv is not reachable']);
  });
});
