/** The files that go along with a job, as the dialog shows them. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { formatBytes } from '../results';
import type { CellsRequest, FilesPlan } from '../wire';

/** The user's choice of files. */
export interface IFileChoice {
  /** Patterns as the user wrote them, separated by commas or spaces. */
  readonly patterns: string;
  /** Paths of files that stay. */
  readonly leftOut: ReadonlySet<string>;
  /** Whether the job runs in the folder of the notebook, with no file of its own. */
  readonly live: boolean;
}

export const NO_CHOICE: IFileChoice = { patterns: '', leftOut: new Set(), live: false };

/** Return the fields of a request for this choice. */
export function describeChoice(
  choice: IFileChoice
): Pick<CellsRequest, 'file_patterns' | 'left_out_files' | 'live_folder'> {
  return {
    file_patterns: choice.patterns.split(/[\s,]+/).filter(pattern => pattern !== ''),
    left_out_files: [...choice.leftOut],
    live_folder: choice.live
  };
}

/** Return the choice in which a file goes along if it stayed, and stays if it went along. */
export function toggleFile(choice: IFileChoice, path: string): IFileChoice {
  const leftOut = new Set(choice.leftOut);
  if (!leftOut.delete(path)) {
    leftOut.add(path);
  }
  return { ...choice, leftOut };
}

/** Return one line on the files and the folder, such as "3 files, 12 kB, go along; runs in a folder of its own". */
export function summarizeFiles(plan: FilesPlan, choice: IFileChoice, trans: TranslationBundle): string {
  const files = countFiles(plan, choice, trans);
  return plan.own_folder ? trans.__('%1; runs in a folder of its own', files) : files;
}

/** Return which files go along and stay, such as "3 files, 12 kB, go along; data.csv (2.1 GB) stays". */
function countFiles(plan: FilesPlan, choice: IFileChoice, trans: TranslationBundle): string {
  const going = plan.going.filter(file => !choice.leftOut.has(file.path));
  const size = formatBytes(going.reduce((sum, file) => sum + file.bytes, 0));
  const count =
    going.length === 0
      ? trans.__('none go along')
      : going.length === 1
        ? trans.__('1 file, %1, goes along', size)
        : trans.__('%1 files, %2, go along', going.length, size);
  const [first, ...others] = plan.staying;
  if (first === undefined) {
    return count;
  }
  const name = first.bytes === null ? first.path : `${first.path} (${formatBytes(first.bytes)})`;
  return others.length === 0
    ? trans.__('%1; %2 stays', count, name)
    : trans.__('%1; %2 and %3 more stay', count, name, others.length);
}

/** Return the messages about files and folders that the job will not find. */
export function listUnreached(plan: FilesPlan): string[] {
  return plan.staying.filter(file => !file.reached).map(file => `${file.path}: ${file.message}`);
}
