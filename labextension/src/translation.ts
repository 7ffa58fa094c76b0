/** The words of this extension in the language of the user. */

import type { ITranslator, TranslationBundle } from '@jupyterlab/translation';
import { nullTranslator } from '@jupyterlab/translation';

/** Name of the catalogue of this extension in JupyterLab's language packs. */
const DOMAIN = 'jupyter_gq';

/** Return the translations of this extension; without a translator, English. */
export function loadTranslations(translator: ITranslator | null): TranslationBundle {
  return (translator ?? nullTranslator).load(DOMAIN);
}

/** The language of the service's sentences, and of files, which others read. */
export const ENGLISH = loadTranslations(null);
