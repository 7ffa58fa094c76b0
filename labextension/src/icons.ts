import { LabIcon } from '@jupyterlab/ui-components';

/** A chip above two lines: the jobs and notebooks that use GPUs, as the panel lists them. */
export const panelIcon = new LabIcon({
  name: 'jupyter-gq:panel',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" fill="#616161">
    <path d="M7 4h10a2 2 0 0 1 2 2v4a2 2 0 0 1-2 2H7a2 2 0 0 1-2-2V6a2 2 0 0 1 2-2zm0 2v4h10V6z"/>
    <path d="M8 1h2v3H8zM14 1h2v3h-2zM8 12h2v2H8zM14 12h2v2h-2zM2 7h3v2H2zM19 7h3v2h-3z"/>
    <path d="M3 16h18v2H3zM3 20h18v2H3z"/>
  </g>
</svg>`
});

/** A chip with an arrow leaving it: work that is sent to a GPU. */
export const trainIcon = new LabIcon({
  name: 'jupyter-gq:train',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" fill="#616161">
    <path d="M13 4H7a3 3 0 0 0-3 3v10a3 3 0 0 0 3 3h10a3 3 0 0 0 3-3v-6h-2v6a1 1 0 0 1-1 1H7a1 1 0 0 1-1-1V7a1 1 0 0 1 1-1h6z"/>
    <path d="M8 1h2v3H8zM8 20h2v3H8zM14 20h2v3h-2zM1 8h3v2H1zM1 14h3v2H1zM20 14h3v2h-3z"/>
    <path d="M15 2h7v7h-2V5.4l-8.3 8.3-1.4-1.4L18.6 4H15z"/>
  </g>
</svg>`
});
