import { definePlugin } from '../lifetime';
import { NewsFeed } from '../news';
import { INewsFeed, ITraining } from '../tokens';

/** The news that the notifications of the page and of the desktop share, so that the server is asked once. */
export const news = definePlugin({
  id: 'jupyter-gq:news',
  description: 'Finds out which news of jobs and sweeps are worth a notification.',
  autoStart: true,
  requires: [ITraining],
  provides: INewsFeed,
  activate: ({ owned, trans }, training: ITraining): INewsFeed => {
    const feed = new NewsFeed(training, trans);
    owned.add(feed);
    return feed;
  }
});
