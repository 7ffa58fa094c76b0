import { INotebookTracker } from '@jupyterlab/notebook';

import { LoadedVariables } from '../attach/loaded';
import { definePlugin } from '../lifetime';
import { ILoadedVariables } from '../tokens';

/** The one place that knows which variables were loaded, for the lines under the cells and for the panel. */
export const loaded = definePlugin({
  id: 'jupyter-gq:loaded',
  description: 'Knows which variables of jobs were loaded into the kernels of their notebooks.',
  autoStart: true,
  requires: [],
  optional: [INotebookTracker],
  provides: ILoadedVariables,
  activate: ({ owned }, tracker: INotebookTracker | null): ILoadedVariables => {
    const variables = new LoadedVariables(tracker);
    owned.add(variables);
    return variables;
  }
});
