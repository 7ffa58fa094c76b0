import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import type { Cell, ICodeCellModel } from '@jupyterlab/cells';
import { CodeCell } from '@jupyterlab/cells';
import type { Notebook, NotebookPanel } from '@jupyterlab/notebook';
import { INotebookTracker, NotebookActions } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { DisposableSet } from '@lumino/disposable';
import { DisposableDelegate } from '@lumino/disposable';

import type { Loss } from '../attach/cell';
import { findPlaceholder, JOB_MIME, METADATA_KEY, readBinding } from '../attach/metadata';
import type { IBindingServices } from '../attach/notebook';
import { NotebookBindings } from '../attach/notebook';
import type { FindCell } from '../attach/renderer';
import { JobRenderer } from '../attach/renderer';
import { SWEEP_MIME } from '../attach/sweep';
import { SweepRenderer } from '../attach/sweeptable';
import { JobStreams } from '../attach/streams';
import { connect, definePlugin, NotebookAttachments } from '../lifetime';
import { readSettings } from '../settings';
import { fitToast, quoteName } from '../toasts';
import { CommandIDs, ICellOutputs, ILoadedVariables, ITraining } from '../tokens';
import type { JobView, SentSweep } from '../wire';

/** The link between jobs and cells, also for notebooks that are opened again. */
export const outputs = definePlugin({
  id: 'jupyter-gq:outputs',
  description: 'Puts the output of jobs under their cells.',
  autoStart: true,
  requires: [INotebookTracker, IRenderMimeRegistry, ITraining, ILoadedVariables],
  optional: [ISettingRegistry],
  provides: ICellOutputs,
  activate: (
    { app, owned, trans },
    tracker: INotebookTracker,
    rendermime: IRenderMimeRegistry,
    training: ITraining,
    loaded: ILoadedVariables,
    registry: ISettingRegistry | null
  ): ICellOutputs => {
    const findCell: FindCell = node => findCellOf(tracker, node);
    const shared = { training, loaded, commands: app.commands, findCell };
    addRenderer(rendermime, owned, JOB_MIME, () => new JobRenderer(shared, trans));
    addRenderer(rendermime, owned, SWEEP_MIME, () => new SweepRenderer(training, app.commands, trans));
    const services = makeServices(owned, app, training, trans);
    const bindings = new NotebookAttachments(tracker, panel => new NotebookBindings(panel, services));
    owned.add(bindings);
    owned.add(
      connect(
        NotebookActions.executionScheduled,
        (_: unknown, { notebook, cell }: { notebook: Notebook; cell: Cell }) => {
          const panel = tracker.find(candidate => candidate.content === notebook);
          if (panel !== undefined) {
            bindings.get(panel)?.handleLocalRun(cell.model.id);
          }
        }
      )
    );
    const bind = async (panel: NotebookPanel, job: JobView): Promise<void> => {
      const settings = await readSettings(registry);
      await bindings.get(panel)?.bind(job, settings.saveOnSend);
    };
    owned.add(
      connect(
        NotebookActions.executed,
        (_: unknown, { notebook, cell }: { notebook: Notebook; cell: Cell }) => {
          const panel = tracker.find(candidate => candidate.content === notebook);
          if (panel !== undefined && cell instanceof CodeCell) {
            void findSentJob(training, cell).then(job =>
              job === null ? bindings.get(panel)?.handleLocalEnd(cell.model.id) : bind(panel, job)
            );
          }
        }
      )
    );
    const showSweep = async (panel: NotebookPanel, cell: string, sweep: SentSweep): Promise<void> => {
      const settings = await readSettings(registry);
      await bindings.get(panel)?.showSweep(cell, sweep, settings.saveOnSend);
    };
    return { bind, showSweep };
  }
});

/** Show outputs of a media type by a renderer of this extension, until `owned` is disposed. */
function addRenderer(
  rendermime: IRenderMimeRegistry,
  owned: DisposableSet,
  type: string,
  createRenderer: () => IRenderMime.IRenderer
): void {
  rendermime.addFactory({ safe: true, mimeTypes: [type], createRenderer }, 0);
  owned.add(new DisposableDelegate(() => rendermime.removeMimeType(type)));
}

/** Return the model of the code cell of an open notebook in which a node is; null if it is in none. */
function findCellOf(tracker: INotebookTracker, node: HTMLElement): ICodeCellModel | null {
  const panel = tracker.find(({ content }) => content.node.contains(node));
  const cell = panel?.content.widgets.find(widget => widget.node.contains(node));
  return cell?.model.type === 'code' ? (cell.model as ICodeCellModel) : null;
}

/**
 * Return the job that a cell which has just run has sent itself, by its magic; null if it has sent none.
 *
 * A cell that was sent from the dialog while it ran here is bound to its job already: it may have been edited since.
 */
async function findSentJob(training: ITraining, cell: CodeCell): Promise<JobView | null> {
  const shown = cell.model.outputs.toJSON().map(output => findPlaceholder([output]));
  const last = shown.filter(placeholder => placeholder !== null).pop();
  const bound = readBinding(cell.model.getMetadata(METADATA_KEY) as unknown)?.job;
  if (last === undefined || last.job === bound) {
    return null;
  }
  const job = await training.findJob(last.job).catch(() => null);
  return job?.targets.some(target => target.cell_id === cell.model.id) === true ? job : null;
}

/** Return the services of the bindings. The streams that they make belong to `owned`. */
function makeServices(
  owned: DisposableSet,
  app: JupyterFrontEnd,
  training: ITraining,
  trans: TranslationBundle
): IBindingServices {
  const streams = new JobStreams((job, after) => training.client.listOutputs(job, after));
  owned.add(streams);
  return {
    training,
    contents: app.serviceManager.contents,
    streams,
    reportDetached: (job, why) => {
      Notification.info(
        fitToast(
          `${explain(why, trans)} ${trans.__('The output of %1 is kept with the job.', quoteName(job.name))}`
        ),
        {
          autoClose: 8000,
          actions: [
            {
              label: trans.__('Details'),
              callback: () => void app.commands.execute(CommandIDs.showJob, { job: job.id })
            }
          ]
        }
      );
    }
  };
}

/** Return why a cell no longer shows its job. */
function explain(why: Loss, trans: TranslationBundle): string {
  const reasons: Record<Loss, string> = {
    edited: trans.__('The cell was edited after it was sent, so its output is left as it is.'),
    cleared: trans.__('The output of the cell was cleared.'),
    converted: trans.__('The cell is no longer a code cell.'),
    replaced: trans.__('The cell now has output of its own.'),
    deleted: trans.__('The cell was deleted.'),
    foreign: trans.__('The cell does not belong to the job.')
  };
  return reasons[why];
}
