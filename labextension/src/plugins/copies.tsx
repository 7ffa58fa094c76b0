import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import type { TranslationBundle } from '@jupyterlab/translation';
import { DisposableDelegate } from '@lumino/disposable';
import * as React from 'react';

import { actOnJob } from '../acts';
import { RequestError } from '../client';
import { describeCopied, describeProgress, listDiffering, measureProgress } from '../copies';
import { definePlugin } from '../lifetime';
import { fitToast, quoteName } from '../toasts';
import { CommandIDs, FILE_ARGS, FILES_ARGS, ITraining, readPath } from '../tokens';
import type { CopyConflict, CopyNews, CopyRequest, JobView } from '../wire';

/** What happens to files that are there and differ. */
type Existing = NonNullable<CopyRequest['existing']>;
/** Opens a file of the user's folder. */
type Open = (path: string) => void;

/** The commands that copy files of jobs beside their notebooks, with a notification that says how far they are. */
export const copies = definePlugin({
  id: 'jupyter-gq:copies',
  description: 'Copies the files that a job wrote beside its notebook, and opens them.',
  autoStart: true,
  requires: [ITraining],
  optional: [IDocumentManager],
  activate: ({ app, owned, trans }, training: ITraining, documents: IDocumentManager | null): void => {
    const open: Open = path =>
      documents === null
        ? void app.commands.execute('docmanager:open', { path })
        : void documents.openOrReveal(path);
    const copier = new Copier(training, open, trans);
    owned.add(new DisposableDelegate(() => copier.cancelAll()));
    owned.add(
      app.commands.addCommand(CommandIDs.copyFiles, {
        label: trans.__('Copy Files of Job beside Notebook'),
        describedBy: { args: FILES_ARGS },
        execute: args => {
          const path = readPath(args);
          return actOnJob(training, args, trans, async job => {
            await copier.copy(job, path === '' ? [] : [path], true);
          });
        }
      })
    );
    owned.add(
      app.commands.addCommand(CommandIDs.openFile, {
        label: trans.__('Open File of Job'),
        describedBy: { args: FILE_ARGS },
        execute: args =>
          actOnJob(training, args, trans, async job => {
            const [file] = await copier.copy(job, [readPath(args)], false);
            if (file !== undefined) {
              open(file.target);
            }
          })
      })
    );
  }
});

class Copier {
  constructor(
    private readonly _training: ITraining,
    private readonly _open: Open,
    private readonly _trans: TranslationBundle
  ) {}

  /** Cancel the copies that are under way. */
  cancelAll(): void {
    this._running.forEach(running => running.abort());
  }

  /**
   * Copy files of a job, all if `paths` is empty; return what is there now, nothing if the user cancelled.
   *
   * The user is asked once about files that differ. With `tell`, a notification says in the end what was copied.
   */
  async copy(job: JobView, paths: string[], tell: boolean): Promise<NonNullable<CopyNews['copied']>> {
    let existing: Existing | null = 'ask';
    while (existing !== null) {
      try {
        return (await this._copyOnce(job, { paths, existing }, tell))?.copied ?? [];
      } catch (reason) {
        const conflict: CopyConflict | null = reason instanceof RequestError ? reason.conflict : null;
        if (conflict === null || existing !== 'ask') {
          throw reason;
        }
        existing = await askAboutDiffering(conflict, this._trans);
      }
    }
    return [];
  }

  /** Copy files with a notification that shows how far they are; return the last news, null if the user cancelled. */
  private async _copyOnce(job: JobView, request: CopyRequest, tell: boolean): Promise<CopyNews | null> {
    const trans = this._trans;
    const running = new AbortController();
    this._running.add(running);
    const actions = [{ label: trans.__('Cancel'), callback: () => running.abort() }];
    const id = Notification.emit(trans.__('Copying files of %1…', quoteName(job.name)), 'in-progress', {
      autoClose: false,
      actions
    });
    const show = (news: CopyNews): void => {
      if (news.copied === null && news.problem === '') {
        const message = fitToast(describeProgress(news, trans));
        Notification.update({ id, message, progress: measureProgress(news), actions, autoClose: false });
      }
    };
    try {
      const news = await this._training.client.copyFiles(job.id, request, show, running.signal);
      Notification.dismiss(id);
      if (tell) {
        this._tell(news);
      }
      return news;
    } catch (reason) {
      Notification.dismiss(id);
      if (running.signal.aborted) {
        return null;
      }
      throw reason;
    } finally {
      this._running.delete(running);
    }
  }

  /** Say what was copied; a single file can be opened from there. */
  private _tell(news: CopyNews): void {
    const copied = news.copied ?? [];
    const [file] = copied;
    const actions =
      copied.length === 1 ? [{ label: this._trans.__('Open'), callback: () => this._open(file.target) }] : [];
    Notification.success(fitToast(describeCopied(news, this._trans)), { autoClose: 8000, actions });
  }

  private readonly _running = new Set<AbortController>();
}

/** Ask what happens to files that are there and differ; return null if nothing is to be copied. */
async function askAboutDiffering(conflict: CopyConflict, trans: TranslationBundle): Promise<Existing | null> {
  const count = conflict.files.length;
  const answer = await showDialog({
    title: trans._n(
      '%1 file beside the notebook differs from that of the job',
      '%1 files beside the notebook differ from those of the job',
      count
    ),
    body: (
      <div>
        <ul className="jp-gq-differing">
          {listDiffering(conflict, trans).map(line => (
            <li key={line}>{line}</li>
          ))}
        </ul>
        <p>{trans.__('“Keep both” adds the job to the names of the copies.')}</p>
      </div>
    ),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.okButton({ label: trans.__('Keep both'), actions: ['keep_both'] }),
      Dialog.warnButton({ label: trans.__('Replace'), actions: ['replace'] })
    ],
    defaultButton: 1
  });
  if (!answer.button.accept) {
    return null;
  }
  return answer.button.actions.includes('replace') ? 'replace' : 'keep_both';
}
