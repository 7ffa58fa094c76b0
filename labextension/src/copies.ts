/** Copies of files of a job beside its notebook, in words. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { formatBytes } from './results';
import { quoteName } from './toasts';
import type { CopyConflict, CopyNews, ExistingFile } from './wire';

/** The most files that a question names one by one. */
const MOST_NAMED = 10;

/** Return how far copies are, such as "Copying model.pt: 3.0 MB of 12 MB". */
export function describeProgress(news: CopyNews, trans: TranslationBundle): string {
  return trans.__(
    'Copying %1: %2 of %3',
    quoteName(news.path),
    formatBytes(news.done),
    formatBytes(news.total)
  );
}

/** Return what is beside the notebook now, and what was left out. */
export function describeCopied(news: CopyNews, trans: TranslationBundle): string {
  const copied = news.copied ?? [];
  const [first] = copied;
  const done =
    copied.length === 1
      ? first.unchanged
        ? trans.__('%1 was there already, with the same content.', quoteName(first.target))
        : trans.__('%1 was copied.', quoteName(first.target))
      : trans._n('%1 file is beside the notebook.', '%1 files are beside the notebook.', copied.length);
  const left = describeLeftOut(news.left_out, trans);
  return left === '' ? done : `${done} ${left}`;
}

/** Return why the first file was left out, and how many others were; "" if none was. */
function describeLeftOut(leftOut: readonly string[], trans: TranslationBundle): string {
  const [first, ...others] = leftOut;
  if (first === undefined) {
    return '';
  }
  const said = trans.__('Left out: %1', first);
  return others.length === 0 ? said : `${said} ${trans.__('And %1 more.', others.length)}`;
}

/** Return whether any of the differing files can be replaced: a folder, a link or a pipe cannot. */
export function canReplace({ files }: CopyConflict): boolean {
  return files.some(({ kind }) => kind === 'file');
}

/** Return a line for each file that differs, and one for those that are not named. */
export function listDiffering({ files }: CopyConflict, trans: TranslationBundle): string[] {
  const named = files.slice(0, MOST_NAMED).map(file => describeDiffering(file, trans));
  const more = files.length - named.length;
  return more === 0 ? named : [...named, trans._n('and %1 more', 'and %1 more', more)];
}

function describeDiffering(file: ExistingFile, trans: TranslationBundle): string {
  switch (file.kind) {
    case 'folder':
      return trans.__('%1 (a folder here, which is never replaced)', file.path);
    case 'link':
      return trans.__('%1 (a link here, which is never replaced)', file.path);
    case 'special file':
      return trans.__('%1 (a special file here, which is never replaced)', file.path);
    case 'file':
      return file.newer
        ? trans.__('%1 (%2, changed after the job had ended)', file.path, formatBytes(file.bytes))
        : trans.__('%1 (%2)', file.path, formatBytes(file.bytes));
  }
}
