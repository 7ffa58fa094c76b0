import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import type { TranslationBundle } from '@jupyterlab/translation';
import { DisposableDelegate } from '@lumino/disposable';
import * as React from 'react';

import { actOnJob } from '../acts';
import { describeError, RequestError } from '../client';
import { canReplace, describeCopied, describeProgress, listDiffering } from '../copies';
import { definePlugin } from '../lifetime';
import { dismissDrawn } from '../notice';
import { fitToast, quoteName } from '../toasts';
import { CommandIDs, FILE_ARGS, FILES_ARGS, ITraining, readPath } from '../tokens';
import type { CopyConflict, CopyNews, CopyRequest, JobView } from '../wire';

/** Milliseconds of copying after which a notification shows how far it is, and between two changes of it. */
const PATIENCE = 1000;
const PAUSE = 500;

/**
 * The fate of files that are there and differ. `agreed` has those that the user wants replaced, also with "keep_both", by
 * path and in the version that the question showed; null = none so far.
 */
type Fate = Required<Pick<CopyRequest, 'existing' | 'agreed'>>;
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
   * Copy files of a job, all if `paths` is empty; return the copies that are there now. None are returned if the user
   * cancelled, or if the copying failed, which a notification says.
   *
   * The user is asked about files that differ, and again about those that differ since then. With `tell`, a notification
   * says in the end what was copied.
   */
  async copy(job: JobView, paths: string[], tell: boolean): Promise<NonNullable<CopyNews['copied']>> {
    let fate: Fate | null = { existing: 'ask', agreed: null };
    while (fate !== null) {
      try {
        const request = { paths, ...fate, notebook_path: job.notebook_path };
        return (await this._copyOnce(job, request, tell))?.copied ?? [];
      } catch (reason) {
        const conflict: CopyConflict | null = reason instanceof RequestError ? reason.conflict : null;
        if (conflict === null) {
          throw reason;
        }
        fate = await askAboutDiffering(conflict, fate.agreed, this._trans);
      }
    }
    return [];
  }

  /**
   * Copy files; if that takes a while, a notification shows how far they are. Return null if the user cancelled, or if the
   * copying failed, which a notification says. Throws the reason if the user must be
   * asked about files that differ, or if it is no refusal of the server.
   */
  private async _copyOnce(job: JobView, request: CopyRequest, tell: boolean): Promise<CopyNews | null> {
    const running = new AbortController();
    this._running.add(running);
    const notice = new Notice(job, () => running.abort(), this._trans);
    try {
      const { client } = this._training;
      const news = await client.copyFiles(job.id, request, known => notice.update(known), running.signal);
      const kind = news.left_out.length === 0 ? 'success' : 'warning';
      notice.end(kind, describeCopied(news, this._trans), tell, this._offerNext(news));
      return news;
    } catch (reason) {
      if (running.signal.aborted) {
        notice.close();
        return null;
      }
      if (reason instanceof RequestError && reason.conflict === null) {
        notice.end('error', describeError(reason), true, []);
        return null;
      }
      notice.close();
      throw reason;
    } finally {
      this._running.delete(running);
    }
  }

  /** Return the buttons that open the copy, if there is a single one, and that say what was left out and why. */
  private _offerNext({ copied, left_out }: CopyNews): Notification.IAction[] {
    const [file] = copied ?? [];
    const open = { label: this._trans.__('Open'), callback: () => this._open(file.target) };
    const why = { label: this._trans.__('Why?'), callback: () => void tellLeftOut(left_out, this._trans) };
    return [...(copied?.length === 1 ? [open] : []), ...(left_out.length === 0 ? [] : [why])];
  }

  private readonly _running = new Set<AbortController>();
}

/** A notification on copies under way, which appears only if they take a while, and then says how they ended. */
class Notice {
  constructor(
    private readonly _job: JobView,
    private readonly _cancel: () => void,
    private readonly _trans: TranslationBundle
  ) {
    this._timer = window.setTimeout(() => this._show(), PATIENCE);
  }

  /** Take note of how far the copies are. */
  update(news: CopyNews): void {
    const now = Date.now();
    this._news = news;
    if (this._id !== null && now - this._updated >= PAUSE && news.copied === null) {
      this._updated = now;
      Notification.update({ id: this._id, ...this._describe() });
    }
  }

  /** Say how the copies ended, if a notification was shown or if `tell` is true. */
  end(
    type: 'success' | 'warning' | 'error',
    text: string,
    tell: boolean,
    actions: Notification.IAction[]
  ): void {
    window.clearTimeout(this._timer);
    const message = fitToast(text);
    if (this._id !== null) {
      Notification.update({ id: this._id, type, message, actions, autoClose: 8000 });
    } else if (tell) {
      Notification.emit(message, type, { autoClose: 8000, actions });
    }
  }

  /** Remove the notification. */
  close(): void {
    window.clearTimeout(this._timer);
    if (this._id !== null) {
      dismissDrawn(this._id);
    }
  }

  private _show(): void {
    const { message, ...options } = this._describe();
    this._updated = Date.now();
    this._id = Notification.emit(message, 'in-progress', options);
  }

  private _describe(): { message: string } & Notification.IOptions<null> {
    const [news, trans] = [this._news, this._trans];
    const actions = [{ label: trans.__('Cancel'), callback: this._cancel }];
    return news === null
      ? { message: trans.__('Copying files of %1…', quoteName(this._job.name)), autoClose: false, actions }
      : {
          message: fitToast(describeProgress(news, trans)),
          autoClose: false,
          actions
        };
  }

  private _id: string | null = null;
  private _news: CopyNews | null = null;
  private _updated = 0;
  private readonly _timer: number;
}

/**
 * Ask what happens to files that are there and differ; return null if nothing is to be copied. The user has agreed
 * already that `agreed` are replaced.
 */
async function askAboutDiffering(
  conflict: CopyConflict,
  agreed: Fate['agreed'],
  trans: TranslationBundle
): Promise<Fate | null> {
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
      ...(canReplace(conflict)
        ? [Dialog.warnButton({ label: trans.__('Replace'), actions: ['replace'] })]
        : [])
    ],
    defaultButton: 1
  });
  if (!answer.button.accept) {
    return null;
  }
  if (!answer.button.actions.includes('replace')) {
    return { existing: 'keep_both', agreed };
  }
  const named = Object.fromEntries(conflict.files.map(({ path, version }) => [path, version]));
  return { existing: 'replace', agreed: { ...agreed, ...named } };
}

/** Show why files were left out, a line for each. */
async function tellLeftOut(leftOut: readonly string[], trans: TranslationBundle): Promise<void> {
  await showDialog({
    title: trans.__('Files that were left out'),
    body: (
      <ul className="jp-gq-differing">
        {leftOut.map((line, place) => (
          <li key={place}>{line}</li>
        ))}
      </ul>
    ),
    buttons: [Dialog.okButton({ label: trans.__('Close') })]
  });
}
