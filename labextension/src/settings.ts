import type { ISettingRegistry } from '@jupyterlab/settingregistry';

/** Id of the plugin that carries the settings, see `schema/plugin.json`. */
export const SETTINGS_ID = 'jupyter-gq:plugin';

/** The user's settings of this extension. */
export interface ISettings {
  /** Save the notebook when one of its cells is sent. */
  readonly saveOnSend: boolean;
  /** Notify the user when a job is done, failed or was paused. */
  readonly notifyWhenDone: boolean;
  /** Notify the user on the desktop as well, while the page cannot be seen. */
  readonly notifyOnDesktop: boolean;
}

const DEFAULTS: ISettings = { saveOnSend: true, notifyWhenDone: true, notifyOnDesktop: false };

/** Return the user's settings; without a registry, and for values that are not boolean, the defaults. */
export async function readSettings(registry: ISettingRegistry | null): Promise<ISettings> {
  return registry === null ? DEFAULTS : selectSettings((await registry.load(SETTINGS_ID)).composite);
}

/** Return the settings among these values; for values that are not boolean, the defaults. */
export function selectSettings(values: ISettingRegistry.ISettings['composite']): ISettings {
  const read = (name: keyof ISettings): boolean => {
    const value = values[name];
    return typeof value === 'boolean' ? value : DEFAULTS[name];
  };
  return {
    saveOnSend: read('saveOnSend'),
    notifyWhenDone: read('notifyWhenDone'),
    notifyOnDesktop: read('notifyOnDesktop')
  };
}
