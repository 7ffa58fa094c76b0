/** Types of what travels between this extension and its Jupyter server. Made by `make docs`: do not edit. */

export interface components {
    schemas: {
        /** @description The answer, with status 409, of POST send and POST sweep for a cell that another page has sent since. */
        AlreadySent: {
            code: string;
            message: string;
            other_jobs: string[];
        };
        /** @description A change of a request with which the job would start at once or clearly earlier, or within its quota. */
        Alternative: {
            /** @description What differs from the request, such as "0.5 GPU" or "The queue nlp". */
            label: string;
            /** @description What would happen with this change. */
            sentence: string;
            /** @description The queue to ask for. */
            queue: string;
            /** @description The GPUs of each task to ask for. */
            gpus: string;
            /** @description The only model of GPU to ask for; None = any. */
            gpu_model: string | null;
            starts_now: boolean;
            /** @description GPUs that could be reclaimed; None = none. */
            over_quota: string | null;
            /** @description Forecast, if it does not start now; None = it does. */
            expected_start: components["schemas"]["ExpectedStart"] | null;
        };
        /** @description A cell that a page hands to a kernel. */
        AnnouncedCell: {
            cell_id: string;
            source: string;
        };
        /** @description The request of POST kernels/<id>/history: the cells that a page has handed to the kernel, in run order. */
        Announcement: {
            cells: components["schemas"]["AnnouncedCell"][];
        };
        /** @description Quota, limit and use of CPU cores or memory in a queue; None = not set. */
        Bounds: {
            quota: string | null;
            limit: string | null;
            /** @description Amount that running jobs have named. */
            used: string;
            /** @description Amount for each task of a job that names none. */
            default: string | null;
        };
        /** @description The answer to a request to cancel several jobs. */
        CancelledJobs: {
            /** @description The jobs that end or will end, as they are now. */
            jobs: components["schemas"]["JobSummary"][];
            /** @description The other jobs, each with the reason. They stay as they were. */
            refused: components["schemas"]["RefusedJob"][];
        };
        /** @description The request of POST variables: the cells to run, and changes to the variables that would go along. */
        CaptureRequest: {
            /**
             * @description Name of an image that the service offers, or of another kernel of this server with the same language. "" = the software of the notebook.
             * @default
             */
            software?: string;
            /**
             * @description Relative to the root folder of this server.
             * @default
             */
            notebook_path?: string;
            /**
             * @description None: the kernel that the notebook names.
             * @default null
             */
            kernel_id?: string | null;
            /**
             * @description Absolute working folder. None: that in which the kernel was started, or the notebook's.
             * @default null
             */
            cwd?: string | null;
            /**
             * @description notebook: every code cell, in the order of the document, is a target.
             * @default replay
             * @enum {string}
             */
            mode?: "replay" | "notebook";
            /** @description nbformat JSON of the model, with unsaved edits. */
            notebook: {
                [key: string]: unknown;
            };
            /** @description Ids of the cells to run; for mode replay. */
            targets?: string[];
            /** @description In run order; for mode replay. */
            prefix?: components["schemas"]["PrefixCell"][];
            /**
             * @description Ids of cells that the user left out of those proposed for `prefix`, one for each run left out; null = unknown.
             * @default null
             */
            left_out_cells?: string[] | null;
            /** @description Files of the notebook's folder that go along beside those that the code names, as in .gitignore. */
            file_patterns?: string[];
            /** @description Paths of files that do not go along. */
            left_out_files?: string[];
            /**
             * @description True: no file goes along; the job runs in the notebook's folder, if it reaches it.
             * @default false
             */
            live_folder?: boolean;
            /**
             * @description Id of the answer of POST variables whose variables go along; null = none go along.
             * @default null
             */
            capture?: string | null;
            /** @description Names beside those that the cells use. */
            more_variables?: string[];
            /** @description Names that stay; the cells that make them run in the job instead. */
            left_out_variables?: string[];
        };
        /** @description The answer of POST variables: what goes along with POST send if it names this capture. */
        Captured: {
            id: string;
            variables: components["schemas"]["CapturedVariable"][];
            /** @description Size of everything that goes along. */
            bytes: number;
            /** @description Places in the request's `prefix` of the cells that make variables which stay; they run in the job. */
            replayed: number[];
            notes: string[];
        };
        /** @description A variable that the cells use. */
        CapturedVariable: {
            name: string;
            type: string;
            /** @description Size of its pickle, without other variables that it holds. */
            bytes: number;
            /** @description Whether it holds values in the memory of a GPU, so that the job needs a GPU. */
            on_gpu: boolean;
            /** @description Why it stays, as a sentence; empty if it goes along. */
            why: string;
        };
        /** @description Whether variables of the kernel can go along, so that the cells before need not run in the job. */
        CarryOffer: {
            offered: boolean;
            /** @description Whether the cells before took so long here that this is worth while. */
            suggested: boolean;
        };
        /** @description A cell that will be run. */
        "CellRef-Output": {
            cell_id: string;
            /** @description SHA-256 of the source, hex. */
            source_hash: string;
            /** @description Duration of the cell's last run in the notebook. */
            seconds: number | null;
        };
        /** @description A warning for the user before sending. */
        CellWarning: {
            code: string;
            message: string;
            cell_id: string | null;
            /** @description Place of the replayed cell in the request's `prefix`; null for a target, or for all. */
            index: number | null;
        };
        /** @description The request of POST check: the cells to run, and where. */
        CellsRequest: {
            /**
             * @description Name of an image that the service offers, or of another kernel of this server with the same language. "" = the software of the notebook.
             * @default
             */
            software?: string;
            /**
             * @description Relative to the root folder of this server.
             * @default
             */
            notebook_path?: string;
            /**
             * @description None: the kernel that the notebook names.
             * @default null
             */
            kernel_id?: string | null;
            /**
             * @description Absolute working folder. None: that in which the kernel was started, or the notebook's.
             * @default null
             */
            cwd?: string | null;
            /**
             * @description notebook: every code cell, in the order of the document, is a target.
             * @default replay
             * @enum {string}
             */
            mode?: "replay" | "notebook";
            /** @description nbformat JSON of the model, with unsaved edits. */
            notebook: {
                [key: string]: unknown;
            };
            /** @description Ids of the cells to run; for mode replay. */
            targets?: string[];
            /** @description In run order; for mode replay. */
            prefix?: components["schemas"]["PrefixCell"][];
            /**
             * @description Ids of cells that the user left out of those proposed for `prefix`, one for each run left out; null = unknown.
             * @default null
             */
            left_out_cells?: string[] | null;
            /** @description Files of the notebook's folder that go along beside those that the code names, as in .gitignore. */
            file_patterns?: string[];
            /** @description Paths of files that do not go along. */
            left_out_files?: string[];
            /**
             * @description True: no file goes along; the job runs in the notebook's folder, if it reaches it.
             * @default false
             */
            live_folder?: boolean;
            /**
             * @description Id of the answer of POST variables whose variables go along; null = none go along.
             * @default null
             */
            capture?: string | null;
        };
        /** @description An entry of the options page. */
        Choice: {
            gpus: string;
            /** @description False: cannot be chosen, now or ever; `sentence` says why. */
            available: boolean;
            starts_now: boolean;
            sentence: string;
        };
        /** @description The data of an event of kind `connection`: the service was lost or can be reached again. */
        ConnectionNotice: {
            available: boolean;
            message: string;
        };
        /** @description A file of a job that is beside the notebook now. */
        CopiedFile: {
            path: string;
            target: string;
            unchanged: boolean;
        };
        /** @description The answer, with status 409, of POST jobs/<id>/copies if files that differ are there. Nothing was copied. */
        CopyConflict: {
            code: string;
            message: string;
            files: components["schemas"]["ExistingFile"][];
        };
        /** @description A line of the answer of POST jobs/<id>/copies. The last line has `copied` or `problem`. */
        CopyNews: {
            path: string;
            done: number;
            total: number;
            copied: components["schemas"]["CopiedFile"][] | null;
            left_out: string[];
            problem: string;
        };
        /** @description The request of POST jobs/<id>/copies: the files to copy beside the notebook. */
        CopyRequest: {
            /** @description Paths as the results of the job list them; empty = all. */
            paths?: string[];
            /**
             * @description What happens to files that are there and differ; ask = 409 with their list.
             * @default ask
             * @enum {string}
             */
            existing?: "ask" | "replace" | "keep_both";
            /**
             * @description The files that are replaced, also with keep_both: the `version` in the list of the 409, by path. With replace, another file that differs is a 409 again. null = all files with replace.
             * @default null
             */
            agreed?: {
                [key: string]: string;
            } | null;
            /**
             * @description Where the notebook is now; empty = where it was when it was sent.
             * @default
             */
            notebook_path?: string;
        };
        /** @description An eviction of a notebook or a job, or the failure of a server. */
        Eviction: {
            /** @description Such as RECLAIMED or IDLE. ENDED: no eviction, but the server failed. */
            reason: string;
            sentence: string;
            /** @description Name of the queue, job or user that gets the devices. */
            by: string | null;
            at: number;
        };
        /** @description An object beside the notebook in the place of a file of the job, from which it differs. */
        ExistingFile: {
            path: string;
            kind: components["schemas"]["PresentKind"];
            bytes: number;
            changed_at: number;
            newer: boolean;
            version: string;
        };
        /** @description The probable start of a waiting job, from usual durations and from the errors of earlier forecasts. */
        ExpectedStart: {
            /** @description Half of such jobs start before this instant. */
            p50: number;
            /** @description Nine of ten start before this instant. */
            p90: number;
            /** @description Number of earlier forecasts behind this one; 0 = a guess. */
            outcomes: number;
        };
        /** @description The files of the notebook's folder that go along, and what the code names beside them. */
        FilesPlan: {
            going: components["schemas"]["PlannedFile"][];
            staying: components["schemas"]["StayingFile"][];
            /** @description Sentences on the folder in which the job runs, and on what is not seen. */
            notes: string[];
            /** @description Whether the job runs in a folder of its own. */
            own_folder: boolean;
            /** @description Sentences on patterns in `file_patterns` that name no file, and on hidden files and secrets. */
            pattern_notes: string[];
        };
        /** @description A warning that an idle notebook will lose its share. */
        IdleWarning: {
            expire_at: number;
            sentence: string;
            /** @description Seconds that 'Keep it' would add now; 0 = the bound is reached. */
            keep_seconds: number;
        };
        /** @description The fields of a job that are to change; those that are left out or null stay as they are. */
        JobChange: {
            /**
             * @description True: the job does not run until it is released; if it runs, it is paused. False: it is released.
             * @default null
             */
            held?: boolean | null;
            /**
             * @description The job waits in this queue instead, at its old place by submission. Not while it runs.
             * @default null
             */
            queue?: string | null;
            /**
             * @description Priority inside the queue, at most the `max_priority` of the queue; a higher priority goes first.
             * @default null
             */
            priority?: number | null;
            /**
             * @description For each task: 0, a fraction such as "0.25", or a whole number. Not while the job runs.
             * @default null
             */
            gpus?: string | number | null;
            /**
             * @description GPU memory of each task, instead of a number of GPUs: GiB as a number, or text such as "12 GiB". Not while the job runs.
             * @default null
             */
            gpu_memory?: string | number | null;
            /**
             * @description Number of tasks. A job that needs all of its tasks goes on to need all, and the least number of any other job stays. Not while the job runs.
             * @default null
             */
            tasks?: number | null;
            /**
             * @description The least number of tasks with which the job starts and runs on; the number of tasks = all or none. Not while the job runs.
             * @default null
             */
            min_tasks?: number | null;
            /**
             * @description Seconds that the job may run, over all runs, at least 1; 0 = no limit of its own. The limit of its queue counts if it is smaller.
             * @default null
             */
            max_seconds?: number | null;
        };
        /** @description The exception with which the code of a job failed. */
        JobError: {
            ename: string;
            evalue: string;
        };
        /** @description Jobs, newest first, without their cells. */
        JobList: {
            jobs: components["schemas"]["JobSummary"][];
            /** @description Value of `before` for the next page; None = last page. */
            next: string | null;
            /** @description Disk space of the files of all jobs of the listed owners, such as "12 GiB of at most 500 GiB"; "" = not measured, or below 1 MiB. */
            disk: string;
            /** @description What the database keeps of all jobs of the listed owners, as in `disk`; of all owners it names those of whom most is kept: "mary 3.9 GiB, paul 12 MiB; at most 4 GiB each". */
            database: string;
        };
        /** @description The log of a job's last run: what is kept of it, and what is not. */
        JobLog: {
            /** @description Number of the run; 0 = the job has not run. */
            run: number;
            /** @description The tasks that have a log, in order. */
            tasks: components["schemas"]["TaskLog"][];
            /** @description All that was written so far is kept. */
            complete: boolean;
            /** @description What is not kept, and why, as a sentence; "" if the log is complete. */
            note: string;
        };
        /** @description A user's request for a job, without its bundle, as a preview needs it. */
        JobRequest: {
            /** @default  */
            name?: string;
            queue: string;
            /**
             * @description GPUs of each task: 0, a fraction such as "0.25", or a whole number. Default: 1.
             * @default 1
             */
            gpus?: string | number;
            /**
             * @description GPU memory of each task, instead of a fraction of a GPU: GiB as a number, or text such as "12 GiB". The task gets a part of one GPU with at least so much memory, so `gpus` must be 1. Default: none.
             * @default null
             */
            gpu_memory?: string | number | null;
            /**
             * @description CPU cores for each task, such as 4 or "0.5". Default: as the queue says.
             * @default null
             */
            cpus?: string | number | null;
            /**
             * @description Memory for each task: GiB as a number, or text such as "512 MiB", rounded up to whole MiB. Default: as the queue says.
             * @default null
             */
            memory?: string | number | null;
            /**
             * @description Only GPUs of this model, as the pool names it. Default: any.
             * @default null
             */
            gpu_model?: string | null;
            /** @description Models of GPU that are tried first, in this order; the job takes others if these have no room. */
            preferred_gpu_models?: string[];
            /**
             * @description Number of tasks. All tasks start together, or none, unless `min_tasks` says less.
             * @default 1
             */
            tasks?: number;
            /**
             * @description The least number of tasks: the job starts with so many, grows to `tasks` when GPUs are free, and gives GPUs back task by task. Default: all tasks or none.
             * @default null
             */
            min_tasks?: number | null;
            /**
             * @description All tasks run in one "node", or in one domain of another level that the settings name, such as "rack"; without room there, none starts. Default: anywhere.
             * @default null
             */
            within?: string | null;
            /**
             * @description Priority inside the queue, at most the `max_priority` of the queue; a higher priority goes first.
             * @default 0
             */
            priority?: number;
            /**
             * @description Seconds that the job will probably run, for forecasts; a longer run is not ended.
             * @default null
             */
            expected_seconds?: number | null;
            /**
             * @description Seconds that the job may run, over all runs and not counting pauses; then it saves its state and ends. The limit of its queue counts if it is smaller. Default: no limit of its own.
             * @default null
             */
            max_seconds?: number | null;
            /**
             * @description Name of the software that the job runs with: an image of `Me.images`, or the kernel of its bundle. "" = the software of its notebook.
             * @default
             */
            software?: string;
            /**
             * @description Id of an ended job of the same owner: the job begins with a copy of its checkpoints. A sweep has one such job for all of its jobs. "" = the job begins without any.
             * @default
             */
            continue_from?: string;
            /**
             * @description Name of a group of the owner's jobs, such as a sweep.
             * @default
             */
            group?: string;
            /**
             * @description Jobs of the group that may run at the same time; needs `group`. Default: all.
             * @default null
             */
            group_parallel?: number | null;
            /**
             * @description Name of the number by which the jobs of the group are compared; "" = their first one.
             * @default
             */
            group_metric?: string;
            /**
             * @description Whether the highest or the lowest number is the best.
             * @default max
             * @enum {string}
             */
            group_mode?: "max" | "min";
            /** @description Names of the secrets of the job. */
            secrets?: string[];
            /**
             * @description Absolute home folder of the user, where secrets are looked for; "" = that of their account.
             * @default
             */
            home?: string;
            /**
             * @description Name of the kernel that the bundle of the job would have, if `software` names it.
             * @default
             */
            kernel?: string;
        };
        /** @description The results of a job that has ended. */
        JobResults: {
            /** @description Python of the job's kernel, such as "3.12". */
            python: string;
            variables: components["schemas"]["ResultVariable"][];
            files: components["schemas"]["ResultFile"][];
            /** @description Number of files that are not listed, because of their number. */
            omitted_files: number;
        };
        /** @description Jobs to which one request applies. */
        JobSelection: {
            /** @description Ids of the jobs. */
            jobs: string[];
        };
        /** @description A job as lists show it, without its cells. */
        JobSummary: {
            id: string;
            name: string;
            owner: string;
            queue: string;
            /** @description GPUs of each task; of a job that names GPU memory, the part of a GPU that it takes. */
            gpus: string;
            /** @description GPU memory of each task; None = not named. */
            gpu_memory: string | null;
            /** @description CPU cores of each task; None = not named. */
            cpus: string | null;
            /** @description Memory of each task; None = not named. */
            memory: string | null;
            /** @description The only model of GPU on which the job runs; None = any. */
            gpu_model: string | null;
            /** @description Models of GPU that are tried first, in this order. */
            preferred_gpu_models: string[];
            tasks: number;
            /** @description Least number of tasks with which the job runs; None = it runs with all of them. */
            min_tasks: number | null;
            /** @description Number of tasks that a job with `min_tasks` runs with now; None = it does not run. */
            tasks_now: number | null;
            /** @description Level in one domain of which all tasks run; None = anywhere. */
            within: string | null;
            priority: number;
            /** @description Seconds that the owner expects the job to run. */
            expected_seconds: number | null;
            /** @description Seconds that the job may run: the smaller of its limit and that of its queue. */
            max_seconds: number | null;
            /** @enum {string} */
            phase: "waiting" | "starting" | "running" | "pausing" | "paused" | "cancelling" | "done" | "failed" | "cancelled";
            /** @description One sentence: why the job waits, was paused or failed, or what it does. */
            sentence: string;
            /** @description Place in the queue, from 1, while the job waits. */
            position: number | null;
            /** @description Forecast while the job waits; None = unknown. */
            expected_start: components["schemas"]["ExpectedStart"] | null;
            /** @description Since when the job is held; `sentence` says by whom. None = it is not held. */
            held_since: number | null;
            /** @description GPUs that may be reclaimed; None = none. */
            over_quota: string | null;
            submitted_at: number;
            /** @description Start of the present or last run. */
            started_at: number | null;
            finished_at: number | null;
            /** @description Seconds for which the runs that have ended ran, without starts and pauses. */
            ran_seconds: number;
            /** @description When the present run began to run, after its start; None = the job does not run. */
            running_since: number | null;
            /** @description Number of the run, from 1; more than 1 after a pause. */
            run: number;
            devices: string[];
            node: string | null;
            server: string;
            /** @description Idempotency key with which the job was sent; "" = without one. If a dialog sent the job, the key begins with that of the dialog. */
            idempotency_key: string;
            notebook_path: string;
            /**
             * @description What was sent: cells of a notebook, a script, or a call of a function or code that is in no cell.
             * @enum {string}
             */
            origin: "notebook" | "script" | "call";
            progress: components["schemas"]["Progress-Output"] | null;
            /** @description When a file in the folder of checkpoints was last written; None = unknown. */
            saved_at: number | null;
            /** @description What a pause costs, or would cost, as far as known; None = the job has not run, or has ended. */
            pause: components["schemas"]["PauseView"] | null;
            /** @description Use of its GPUs at the last sample, 0 to 100, the highest of any process and GPU; None = unknown. */
            utilisation: number | null;
            /** @description GPU memory that its processes hold together; None = unknown. */
            gpu_memory_used_mib: number | null;
            /** @description GPU memory that it may hold on all of its GPUs; None = unknown. */
            gpu_memory_limit_mib: number | null;
            /** @description Present while the job has used no GPU for longer than the administrator allows. */
            unused_gpu: components["schemas"]["UnusedGpuView"] | null;
            last_seq: number;
            /** @description Disk space that the files of a running job take; None = not measured, or below 1 MiB. */
            disk: string | null;
            eviction: components["schemas"]["Eviction"] | null;
            error: components["schemas"]["JobError"] | null;
            /** @description Names of variables that the job brings back; see its results. */
            returns: string[];
            /** @description Names of the secrets that the job has. */
            secrets: string[];
            /** @description Software that its owner chose: an image or a kernel; "" = that of its notebook. */
            software: string;
            /** @description Id of the job from whose checkpoints this one continues; "" = of none. */
            continue_from: string;
            /** @description Name of a group of the owner's jobs; "" = none. */
            group: string;
            /** @description Jobs of the group that may run at the same time; None = all. */
            group_parallel: number | null;
            /** @description Number by which its jobs are compared; "" = their first one. */
            group_metric: string;
            /**
             * @description Whether the highest or the lowest number is the best.
             * @enum {string}
             */
            group_mode: "max" | "min";
        };
        /** @description The GPU use of a job in its last run, as far as this service has measured it. */
        JobUsage: {
            /** @description Number of the run; 0 = nothing was measured. */
            run: number;
            /** @description First sample of the run since the start of the service; None = nothing was measured. */
            since: number | null;
            /** @description Length of each interval, which grows with the time of the run. */
            seconds: number;
            /** @description At most 120, in the order of time. */
            points: components["schemas"]["UsagePoint"][];
            /** @description Device memory that the job may use on all of its devices; None = unknown. */
            memory_limit_mib: number | null;
            /** @description The newest figures in words, or why nothing is known. */
            sentence: string;
        };
        /** @description A job as its owner sees it. */
        JobView: {
            id: string;
            name: string;
            owner: string;
            queue: string;
            /** @description GPUs of each task; of a job that names GPU memory, the part of a GPU that it takes. */
            gpus: string;
            /** @description GPU memory of each task; None = not named. */
            gpu_memory: string | null;
            /** @description CPU cores of each task; None = not named. */
            cpus: string | null;
            /** @description Memory of each task; None = not named. */
            memory: string | null;
            /** @description The only model of GPU on which the job runs; None = any. */
            gpu_model: string | null;
            /** @description Models of GPU that are tried first, in this order. */
            preferred_gpu_models: string[];
            tasks: number;
            /** @description Least number of tasks with which the job runs; None = it runs with all of them. */
            min_tasks: number | null;
            /** @description Number of tasks that a job with `min_tasks` runs with now; None = it does not run. */
            tasks_now: number | null;
            /** @description Level in one domain of which all tasks run; None = anywhere. */
            within: string | null;
            priority: number;
            /** @description Seconds that the owner expects the job to run. */
            expected_seconds: number | null;
            /** @description Seconds that the job may run: the smaller of its limit and that of its queue. */
            max_seconds: number | null;
            /** @enum {string} */
            phase: "waiting" | "starting" | "running" | "pausing" | "paused" | "cancelling" | "done" | "failed" | "cancelled";
            /** @description One sentence: why the job waits, was paused or failed, or what it does. */
            sentence: string;
            /** @description Place in the queue, from 1, while the job waits. */
            position: number | null;
            /** @description Forecast while the job waits; None = unknown. */
            expected_start: components["schemas"]["ExpectedStart"] | null;
            /** @description Since when the job is held; `sentence` says by whom. None = it is not held. */
            held_since: number | null;
            /** @description GPUs that may be reclaimed; None = none. */
            over_quota: string | null;
            submitted_at: number;
            /** @description Start of the present or last run. */
            started_at: number | null;
            finished_at: number | null;
            /** @description Seconds for which the runs that have ended ran, without starts and pauses. */
            ran_seconds: number;
            /** @description When the present run began to run, after its start; None = the job does not run. */
            running_since: number | null;
            /** @description Number of the run, from 1; more than 1 after a pause. */
            run: number;
            devices: string[];
            node: string | null;
            server: string;
            /** @description Idempotency key with which the job was sent; "" = without one. If a dialog sent the job, the key begins with that of the dialog. */
            idempotency_key: string;
            notebook_path: string;
            /**
             * @description What was sent: cells of a notebook, a script, or a call of a function or code that is in no cell.
             * @enum {string}
             */
            origin: "notebook" | "script" | "call";
            progress: components["schemas"]["Progress-Output"] | null;
            /** @description When a file in the folder of checkpoints was last written; None = unknown. */
            saved_at: number | null;
            /** @description What a pause costs, or would cost, as far as known; None = the job has not run, or has ended. */
            pause: components["schemas"]["PauseView"] | null;
            /** @description Use of its GPUs at the last sample, 0 to 100, the highest of any process and GPU; None = unknown. */
            utilisation: number | null;
            /** @description GPU memory that its processes hold together; None = unknown. */
            gpu_memory_used_mib: number | null;
            /** @description GPU memory that it may hold on all of its GPUs; None = unknown. */
            gpu_memory_limit_mib: number | null;
            /** @description Present while the job has used no GPU for longer than the administrator allows. */
            unused_gpu: components["schemas"]["UnusedGpuView"] | null;
            last_seq: number;
            /** @description Disk space that the files of a running job take; None = not measured, or below 1 MiB. */
            disk: string | null;
            eviction: components["schemas"]["Eviction"] | null;
            error: components["schemas"]["JobError"] | null;
            /** @description Names of variables that the job brings back; see its results. */
            returns: string[];
            /** @description Names of the secrets that the job has. */
            secrets: string[];
            /** @description Software that its owner chose: an image or a kernel; "" = that of its notebook. */
            software: string;
            /** @description Id of the job from whose checkpoints this one continues; "" = of none. */
            continue_from: string;
            /** @description Name of a group of the owner's jobs; "" = none. */
            group: string;
            /** @description Jobs of the group that may run at the same time; None = all. */
            group_parallel: number | null;
            /** @description Number by which its jobs are compared; "" = their first one. */
            group_metric: string;
            /**
             * @description Whether the highest or the lowest number is the best.
             * @enum {string}
             */
            group_mode: "max" | "min";
            /** @description Cells whose output goes back to the notebook. */
            targets: components["schemas"]["CellRef-Output"][];
            /** @description Cells that are replayed first, in run order. */
            prefix: components["schemas"]["CellRef-Output"][];
            /** @description Ids of cells that the owner left out of those proposed to be replayed, one for each run left out; None = unknown, as of jobs that were sent by a command. */
            left_out_cells: string[] | null;
            /** @description Whether variables of the notebook's kernel went along, so that fewer cells are replayed; None = unknown, as of jobs of older releases. */
            carries_variables: boolean | null;
        };
        /** @description The answer of GET kernels/<id>/history: the executions in the present session of a kernel, in run order. */
        KernelHistory: {
            cells: components["schemas"]["RanCell"][];
            complete: boolean;
        };
        /** @description A line of a log. */
        LogLine: {
            /** @description Number of the line, from 1; lines that are dropped do not count. */
            line: number;
            /** @description The line, or up to 1000 bytes around the text that was looked for. */
            text: string;
        };
        /** @description The lines of a part of one task's log that have the text in them. */
        LogLines: {
            task: number;
            lines: components["schemas"]["LogLine"][];
            /** @description The `start` of the next part; None if this is the end of the log. */
            next: number | null;
            /** @description The `line` of the next part. */
            next_line: number;
        };
        /** @description The data of the options page and the send dialog. */
        Me: {
            user: string;
            groups: string[];
            admin: boolean;
            quota: string;
            used: string;
            left: string;
            choices: components["schemas"]["Choice"][];
            queues: components["schemas"]["QueueView"][];
            pools: components["schemas"]["PoolView"][];
            /** @description Name of the pool whose devices notebooks get. */
            build_pool: string;
            /** @description The most GPUs that one task of a job can have. */
            largest_request: string;
            /** @description Names of the secrets that jobs may have; `*` stands for any text. */
            secrets: string[];
            /** @description The user stores secrets with `jupyter-gq secret set`; otherwise the cluster has them. */
            secrets_in_home: boolean;
            /** @description Names of the container images in which jobs may run beside their notebook's. */
            images: string[];
            /** @description The last eviction of one of the user's notebooks, or the failure of its server. */
            last_eviction: components["schemas"]["Eviction"] | null;
            /** @description What enforces the memory limit of a part of a GPU, in sentences; "" = unknown. */
            level_sentence: string;
            /** @description One sentence: whether the devices are real or simulated, and why. */
            devices_sentence: string;
        };
        /** @description The memory that the programs of a share hold above its limit, what was done about it, and what follows. */
        MemoryExcessView: {
            /** @description Device memory that the programs hold together. */
            used_mib: number;
            /** @description Device memory that they may hold. */
            limit_mib: number;
            /** @description How much of it is too much. */
            over_mib: number;
            /**
             * @description The last step.
             * @enum {string}
             */
            done: "warn" | "interrupt" | "terminate" | "kill";
            /** @description The next step; None = the share is within its limit again. */
            next: ("warn" | "interrupt" | "terminate" | "kill") | null;
            /** @description When the next step follows if no memory is freed. */
            next_at: number | null;
            /** @description What happened, and what happens next and when. */
            sentence: string;
        };
        /** @description Notebooks that run or wait, newest first. */
        NotebookList: {
            notebooks: components["schemas"]["NotebookView"][];
            /** @description Value of `before` for the next page; None = last page. */
            next: string | null;
        };
        /** @description A notebook server and its share. */
        NotebookView: {
            id: string;
            server: string;
            owner: string;
            gpus: string;
            /** @enum {string} */
            phase: "waiting" | "starting" | "running" | "suspended" | "resuming" | "stopping" | "stopped";
            sentence: string;
            position: number | null;
            submitted_at: number;
            started_at: number | null;
            finished_at: number | null;
            devices: string[];
            /** @description Product name of the notebook's device. */
            model: string | null;
            memory_quota_mib: number | null;
            memory_used_mib: number | null;
            /** @description Use of the device by the notebook's processes, 0 to 100. */
            utilisation: number | null;
            /** @description Level at which the memory limit of the share is enforced now: hardware (whole devices), driver (NVIDIA's driver refuses more), mps (MPS refuses each program more), intercept (by HAMi), watched (programs above it are ended), cooperative (by frameworks), advisory (not at all), none (no GPU); "" = unknown. */
            enforcement: string;
            /** @description What the level means, and why the driver or MPS does not limit the memory although it shall. */
            enforcement_sentence: string;
            /** @description Start of the idleness; None = in use, or unknown. */
            idle_since: number | null;
            warning: components["schemas"]["IdleWarning"] | null;
            /** @description Until when 'Keep it' protects the idle share; None = it does not. */
            kept_until: number | null;
            /** @description Present while the share holds too much memory, and for ten minutes after an act. */
            over_limit: components["schemas"]["MemoryExcessView"] | null;
            /** @description Present while the share is suspended or comes back (phases suspended, resuming). */
            suspension: components["schemas"]["SuspensionView"] | null;
            /** @description Why the share was not suspended at the last attempt, in one sentence; empty: no failure. */
            suspension_refusal: string;
            /** @description A problem of the running notebook, in one sentence; empty: none. */
            trouble: string;
            eviction: components["schemas"]["Eviction"] | null;
        };
        /** @description A numbered piece of output. `client.outputs.fold` says what each `op` means and which fields it has. */
        OutputEvent: {
            seq: number;
            run: number;
            at: number;
            /** @enum {string} */
            op: "run" | "cell" | "append" | "replace" | "clear" | "set";
            state?: string;
            language?: string;
            cell?: string;
            /** @enum {string} */
            role?: "prefix" | "target";
            execution_count?: number | null;
            finished?: boolean;
            index?: number;
            output?: {
                [key: string]: unknown;
            };
            outputs?: {
                [key: string]: unknown;
            }[];
        };
        /** @description The data of an event of kind `output`: a job has stored output up to `last_seq`. */
        OutputNotice: {
            job: string;
            last_seq: number;
        };
        /** @description A page of output, after whose last piece the next page begins; see client.outputs for the form of the pieces. */
        OutputPage: {
            events: components["schemas"]["OutputEvent"][];
            /** @description Number of the last stored piece of the job, which a later page may hold. */
            last_seq: number;
            /** @description The job is final and nothing more will come after last_seq. */
            finished: boolean;
        };
        /** @description The cost of a pause of a job, now or in future. */
        PauseView: {
            /**
             * @description `suspended`: nothing is lost; `checkpoint`: the work since the last checkpoint is done again; `restart`: all work is done again, if the code has begun.
             * @enum {string}
             */
            way: "suspended" | "checkpoint" | "restart";
            /** @description One sentence about that. */
            sentence: string;
        };
        /** @description The answer of POST check. */
        Plan: {
            prefix: components["schemas"]["PlannedCell"][];
            targets: components["schemas"]["PlannedCell"][];
            warnings: components["schemas"]["CellWarning"][];
            /** @description Names of the variables that the targets make; Python only. */
            makes: string[];
            files: components["schemas"]["FilesPlan"];
            /** @description What a sweep can vary; Python only. */
            assignments: components["schemas"]["PlannedAssignment"][];
            /** @description Names of the variables that the targets make or change and cells below need: a proposal of what to bring back; Python only. */
            returns: string[];
            environment: components["schemas"]["PlannedEnvironment"];
            carry: components["schemas"]["CarryOffer"];
            /** @description What can be chosen as `software`, beside the service's images. */
            kernels: components["schemas"]["PlannedKernel"][];
            /** @description Whether an image of the service can be chosen: for Python only. */
            takes_images: boolean;
        };
        /** @description An assignment of a literal that a sweep can vary. */
        PlannedAssignment: {
            name: string;
            /** @description Source of the literal. */
            value: string;
            /** @description Line in its cell, from 1. */
            line: number;
            /** @description First line of code of its cell. */
            title: string;
        };
        /** @description A cell that will run. */
        PlannedCell: {
            cell_id: string;
            /** @description First line of code of the cell. */
            title: string;
            seconds: number | null;
            /** @enum {string} */
            why: "ran" | "setup" | "target";
        };
        /** @description The environment variables of this server that go along with a job: names, never values. */
        PlannedEnvironment: {
            /** @description Names that go along with every job. */
            always: string[];
            /** @description Names that may go along beside them. */
            variables: components["schemas"]["PlannedVariable"][];
            /** @description Secrets that are stored here or that the cells want. */
            secrets: components["schemas"]["PlannedSecret"][];
        };
        /** @description A file of the notebook's folder that goes along, unless the user leaves it out. */
        PlannedFile: {
            /** @description Relative to the notebook's folder. */
            path: string;
            bytes: number;
            /** @enum {string} */
            why: "imported" | "opened" | "pattern";
        };
        /** @description A kernel of this server, other than the notebook's, with which the job can run. */
        PlannedKernel: {
            name: string;
            /** @description Name of the kernel as Jupyter shows it. */
            title: string;
        };
        /** @description A secret that the job may need. */
        PlannedSecret: {
            name: string;
            /** @description Whether the cells read it, or import a library that does. */
            wanted: boolean;
            /** @description Whether the user has stored it on this machine. */
            stored: boolean;
        };
        /** @description An environment variable that may go along. */
        PlannedVariable: {
            name: string;
            /**
             * @description read: the cells read it; proxy: a proxy of the network; offered: it goes along if it is chosen.
             * @enum {string}
             */
            why: "read" | "proxy" | "offered";
        };
        /** @description Totals of a pool. */
        PoolView: {
            name: string;
            devices: number;
            model: string | null;
            /** @description All models of GPU in the pool, by name. */
            models: string[];
            memory_mib: number | null;
            /** @description CPU cores of the largest node; None = not counted. */
            largest_cpus: string | null;
            /** @description Memory of the largest node; None = not counted. */
            largest_memory: string | null;
            total: string;
            free: string;
            /** @description The largest share that fits on one device now. */
            largest_fraction: string;
        };
        /** @description A cell to replay before the sent one: with the source that ran, or that of the notebook if `ran` is false. */
        PrefixCell: {
            /** @default  */
            cell_id?: string;
            source: string;
            /** @default null */
            seconds?: number | null;
            /**
             * @description Whether the cell is known to have run in the kernel.
             * @default true
             */
            ran?: boolean;
        };
        /**
         * @description The kinds of objects at the target of a copy, in words.
         * @enum {string}
         */
        PresentKind: "file" | "folder" | "link" | "special file";
        /** @description The prediction for a job if it were sent now. */
        Preview: {
            starts_now: boolean;
            sentence: string;
            /** @description Place in the queue, from 1; None if the job starts now. */
            position: number | null;
            /** @description Forecast, if the job would wait; None = it starts now, or its start is unknown. */
            expected_start: components["schemas"]["ExpectedStart"] | null;
            /** @description GPUs that could be reclaimed, beside the work that runs now; None = none. */
            over_quota: string | null;
            /** @description At most three changes of the request, best first, that would start at once or clearly earlier than a job that waits, or within the quota instead of over it. */
            alternatives: components["schemas"]["Alternative"][];
            /** @description GPUs that each task would have; for GPU memory, the part of a GPU. */
            gpus: string;
            /** @description CPU cores that each task would have; None = no request. */
            cpus: string | null;
            /** @description Seconds that the job could run: the smaller of its limit and that of its queue. */
            max_seconds: number | null;
            /** @description Memory that each task would have; None = no request. */
            memory: string | null;
        };
        /** @description The one form of every error. */
        Problem: {
            /** @description Stable word for programs, such as unknown_queue. */
            code: string;
            /** @description What was wrong, what was expected and what to do. */
            message: string;
            /** @description Part of the request that the error is about, such as gpus. */
            field: string | null;
        };
        /** @description The progress that a job reports. */
        "Progress-Output": {
            fraction: number | null;
            text: string;
        };
        /** @description The queues that the user may see. */
        QueueList: {
            queues: components["schemas"]["QueueView"][];
        };
        /** @description Totals of a queue, for its members. */
        QueueView: {
            name: string;
            parent: string | null;
            pool: string;
            quota: string;
            limit: string | null;
            used: string;
            /** @description The part of `used` that is above the quota. */
            over_quota: string;
            /** @description CPU cores of the queue. */
            cpus: components["schemas"]["Bounds"];
            /** @description Memory of the queue on the nodes. */
            memory: components["schemas"]["Bounds"];
            waiting: number;
            running: number;
            over_quota_weight: number;
            priority: number;
            /** @description Whether the asking user may submit to the queue. */
            member: boolean;
            /** @description The highest priority that the asking user may give to a job in this queue. */
            max_priority: number;
            /** @description Seconds that a job of this queue may run, over all of its runs; None = no limit. */
            max_seconds: number | null;
        };
        /** @description An execution in the present session of a kernel. */
        RanCell: {
            code: string;
            execution_count: number;
            seconds: number | null;
            failed: boolean;
            cell_id: string;
            began: number;
        };
        /** @description A job of a selection to which the request could not be applied. */
        RefusedJob: {
            job: string;
            code: string;
            message: string;
        };
        /** @description A file in the result folder of a job. */
        ResultFile: {
            /** @description Relative to the result folder, with slashes. */
            path: string;
            bytes: number;
            /** @description Why its content was not kept, one sentence; "" = it can be read. */
            reason: string;
        };
        /** @description The answer of POST open-result: the place of the executed notebook, relative to the root folder. */
        ResultPath: {
            path: string;
        };
        /** @description A variable that a job returns. Only the owner of the job may read its value, which is a pickle. */
        ResultVariable: {
            name: string;
            /** @description Its class, such as "torch.nn.Linear"; "" if it is unknown. */
            type: string;
            /** @description Size of the pickle; None = there is none, and `reason` says why. */
            bytes: number | null;
            /** @description SHA-256 of the pickle, hex. */
            sha256: string;
            /** @description Path of the pickle among the results. */
            path: string;
            /** @description Why the value was not saved, one sentence. */
            reason: string;
            /** @description The value, if it is a number; nan and infinite ones as text, since JSON has none. None = it is not a number. */
            number: number | ("nan" | "inf" | "-inf") | null;
        };
        /** @description The answer of GET same-file: whether two paths, relative to the root folder, lead to one file. */
        SameFile: {
            same: boolean;
        };
        /** @description The request of POST send: the cells and the resources of the job. */
        SendRequest: {
            /**
             * @description Name of an image that the service offers, or of another kernel of this server with the same language. "" = the software of the notebook.
             * @default
             */
            software?: string;
            /** @description Sending the same request with the same key twice makes one job. */
            key: string;
            /** @default  */
            name?: string;
            queue: string;
            /** @default 1 */
            gpus?: string | number;
            /** @default null */
            gpu_memory?: string | number | null;
            /** @default null */
            cpus?: string | number | null;
            /** @default null */
            memory?: string | number | null;
            /** @default null */
            gpu_model?: string | null;
            preferred_gpu_models?: string[];
            /** @default null */
            expected_seconds?: number | null;
            /** @default null */
            max_seconds?: number | null;
            /** @default 1 */
            tasks?: number;
            /** @default null */
            min_tasks?: number | null;
            /** @default null */
            within?: string | null;
            /** @default 0 */
            priority?: number;
            /**
             * @description Id of an ended job of the user with whose checkpoints the job begins; "" = none.
             * @default
             */
            continue_from?: string;
            /** @default  */
            group?: string;
            /** @default null */
            group_parallel?: number | null;
            /** @default  */
            group_metric?: string;
            /**
             * @default max
             * @enum {string}
             */
            group_mode?: "max" | "min";
            /** @description Names of variables that the job brings back. */
            returns?: string[];
            /**
             * @description Names of environment variables that go along beside the usual ones; null = those that the plan proposes.
             * @default null
             */
            variables?: string[] | null;
            /** @description Names of the secrets that the job has. */
            secrets?: string[];
            /**
             * @description Relative to the root folder of this server.
             * @default
             */
            notebook_path?: string;
            /**
             * @description None: the kernel that the notebook names.
             * @default null
             */
            kernel_id?: string | null;
            /**
             * @description Absolute working folder. None: that in which the kernel was started, or the notebook's.
             * @default null
             */
            cwd?: string | null;
            /**
             * @description notebook: every code cell, in the order of the document, is a target.
             * @default replay
             * @enum {string}
             */
            mode?: "replay" | "notebook";
            /** @description nbformat JSON of the model, with unsaved edits. */
            notebook: {
                [key: string]: unknown;
            };
            /** @description Ids of the cells to run; for mode replay. */
            targets?: string[];
            /** @description In run order; for mode replay. */
            prefix?: components["schemas"]["PrefixCell"][];
            /**
             * @description Ids of cells that the user left out of those proposed for `prefix`, one for each run left out; null = unknown.
             * @default null
             */
            left_out_cells?: string[] | null;
            /** @description Files of the notebook's folder that go along beside those that the code names, as in .gitignore. */
            file_patterns?: string[];
            /** @description Paths of files that do not go along. */
            left_out_files?: string[];
            /**
             * @description True: no file goes along; the job runs in the notebook's folder, if it reaches it.
             * @default false
             */
            live_folder?: boolean;
            /**
             * @description Id of the answer of POST variables whose variables go along; null = none go along.
             * @default null
             */
            capture?: string | null;
            /**
             * @description Ids of the jobs of these cells of which the user knows. If another page has sent a cell since, and one of its jobs that has not ended is not among them, the answer is 409 already_sent. null = send in any case.
             * @default null
             */
            known_jobs?: string[] | null;
        };
        /** @description The answer of POST sweep. */
        SentSweep: {
            group: string;
            name: string;
            queue: string;
            /** @description Name of the number by which the jobs are compared; "" = their first one. */
            metric: string;
            /**
             * @description Whether the highest or the lowest number is the best.
             * @enum {string}
             */
            mode: "max" | "min";
            jobs: components["schemas"]["SweptJob"][];
        };
        /** @description The answer of GET status. If the service cannot be used, `message` says why and what to do. */
        ServerStatus: {
            available: boolean;
            message: string;
            user: string | null;
            server: string;
            hub: boolean;
        };
        /** @description A file or folder that the code names and that does not go along. */
        StayingFile: {
            path: string;
            /** @description None for a folder. */
            bytes: number | null;
            /** @description Why it stays, and whether the job reaches it. */
            message: string;
            /** @description Whether the job finds it at the same path. */
            reached: boolean;
        };
        /** @description The suspension of a notebook's share: its GPU state is in host memory, and its devices are lent. */
        SuspensionView: {
            /** @description When the devices were given up. */
            since: number;
            /** @description For whom and why, and what brings the share back. */
            sentence: string;
            /** @description Host memory that the saved GPU state takes. */
            memory_mib: number | null;
            /** @description About how long the state takes to return to free devices; None = unknown. */
            expected_seconds: number | null;
            /** @description Seconds from now within which the share should be back, borrowers' time to make room included. None = no cell waits for it, or unknown. */
            back_within: number | null;
            /** @description Whether a cell waits for the share. */
            wanted: boolean;
            /** @description Place among the notebooks in which cells wait for the same devices, from 1; older notebooks go first. None = no cell waits for them, their state is being restored already, or something else is in the way. */
            position: number | null;
            /** @description Number of jobs that were told to leave the devices, and make room. */
            leaving: number;
        };
        /** @description The request of POST sweep: the cells and the resources of each job, and what varies from job to job. */
        SweepRequest: {
            /**
             * @description Name of an image that the service offers, or of another kernel of this server with the same language. "" = the software of the notebook.
             * @default
             */
            software?: string;
            /** @description Sending the same request with the same key twice makes one job. */
            key: string;
            /** @default  */
            name?: string;
            queue: string;
            /** @default 1 */
            gpus?: string | number;
            /** @default null */
            gpu_memory?: string | number | null;
            /** @default null */
            cpus?: string | number | null;
            /** @default null */
            memory?: string | number | null;
            /** @default null */
            gpu_model?: string | null;
            preferred_gpu_models?: string[];
            /** @default null */
            expected_seconds?: number | null;
            /** @default null */
            max_seconds?: number | null;
            /** @default 1 */
            tasks?: number;
            /** @default null */
            min_tasks?: number | null;
            /** @default null */
            within?: string | null;
            /** @default 0 */
            priority?: number;
            /**
             * @description Id of an ended job of the user with whose checkpoints the job begins; "" = none.
             * @default
             */
            continue_from?: string;
            /** @default  */
            group?: string;
            /** @default null */
            group_parallel?: number | null;
            /** @default  */
            group_metric?: string;
            /**
             * @default max
             * @enum {string}
             */
            group_mode?: "max" | "min";
            /** @description Names of variables that the job brings back. */
            returns?: string[];
            /**
             * @description Names of environment variables that go along beside the usual ones; null = those that the plan proposes.
             * @default null
             */
            variables?: string[] | null;
            /** @description Names of the secrets that the job has. */
            secrets?: string[];
            /**
             * @description Relative to the root folder of this server.
             * @default
             */
            notebook_path?: string;
            /**
             * @description None: the kernel that the notebook names.
             * @default null
             */
            kernel_id?: string | null;
            /**
             * @description Absolute working folder. None: that in which the kernel was started, or the notebook's.
             * @default null
             */
            cwd?: string | null;
            /**
             * @description notebook: every code cell, in the order of the document, is a target.
             * @default replay
             * @enum {string}
             */
            mode?: "replay" | "notebook";
            /** @description nbformat JSON of the model, with unsaved edits. */
            notebook: {
                [key: string]: unknown;
            };
            /** @description Ids of the cells to run; for mode replay. */
            targets?: string[];
            /** @description In run order; for mode replay. */
            prefix?: components["schemas"]["PrefixCell"][];
            /**
             * @description Ids of cells that the user left out of those proposed for `prefix`, one for each run left out; null = unknown.
             * @default null
             */
            left_out_cells?: string[] | null;
            /** @description Files of the notebook's folder that go along beside those that the code names, as in .gitignore. */
            file_patterns?: string[];
            /** @description Paths of files that do not go along. */
            left_out_files?: string[];
            /**
             * @description True: no file goes along; the job runs in the notebook's folder, if it reaches it.
             * @default false
             */
            live_folder?: boolean;
            /**
             * @description Id of the answer of POST variables whose variables go along; null = none go along.
             * @default null
             */
            capture?: string | null;
            /**
             * @description Ids of the jobs of these cells of which the user knows. If another page has sent a cell since, and one of its jobs that has not ended is not among them, the answer is 409 already_sent. null = send in any case.
             * @default null
             */
            known_jobs?: string[] | null;
            /** @description Literals by the name that takes them; all combinations are sent. */
            grid: {
                [key: string]: string[];
            };
        };
        /** @description A job of a sweep, and the literals that its cells have. */
        SweptJob: {
            job: string;
            values: {
                [key: string]: string;
            };
        };
        /** @description The bytes of one task's log that are kept. */
        TaskLog: {
            task: number;
            /** @description Number of the first byte that is kept; the bytes before are dropped. */
            start: number;
            /** @description Number of bytes that were written so far. */
            end: number;
        };
        /** @description The finding that a running job has used no GPU for a while. */
        UnusedGpuView: {
            /** @description Since when it is known for sure that no GPU was used. */
            since: number;
            /** @description For how long, what the job holds, and what to do. */
            sentence: string;
        };
        /** @description The GPU use of a job in one interval. Intervals in which nothing was known have no point. */
        UsagePoint: {
            /** @description Beginning of the interval. */
            at: number;
            /** @description Mean of the samples, 0 to 100, each the highest of any process and device; None = unknown. */
            utilisation: number | null;
            /** @description Highest utilisation of any sample; None = unknown. */
            highest: number | null;
            /** @description Highest device memory of all processes together, in MiB; None = unknown. */
            memory_mib: number | null;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type AlreadySent = components['schemas']['AlreadySent'];
export type Alternative = components['schemas']['Alternative'];
export type AnnouncedCell = components['schemas']['AnnouncedCell'];
export type Announcement = components['schemas']['Announcement'];
export type Bounds = components['schemas']['Bounds'];
export type CancelledJobs = components['schemas']['CancelledJobs'];
export type CaptureRequest = components['schemas']['CaptureRequest'];
export type Captured = components['schemas']['Captured'];
export type CapturedVariable = components['schemas']['CapturedVariable'];
export type CarryOffer = components['schemas']['CarryOffer'];
export type CellRefOutput = components['schemas']['CellRef-Output'];
export type CellWarning = components['schemas']['CellWarning'];
export type CellsRequest = components['schemas']['CellsRequest'];
export type Choice = components['schemas']['Choice'];
export type ConnectionNotice = components['schemas']['ConnectionNotice'];
export type CopiedFile = components['schemas']['CopiedFile'];
export type CopyConflict = components['schemas']['CopyConflict'];
export type CopyNews = components['schemas']['CopyNews'];
export type CopyRequest = components['schemas']['CopyRequest'];
export type Eviction = components['schemas']['Eviction'];
export type ExistingFile = components['schemas']['ExistingFile'];
export type ExpectedStart = components['schemas']['ExpectedStart'];
export type FilesPlan = components['schemas']['FilesPlan'];
export type IdleWarning = components['schemas']['IdleWarning'];
export type JobChange = components['schemas']['JobChange'];
export type JobError = components['schemas']['JobError'];
export type JobList = components['schemas']['JobList'];
export type JobLog = components['schemas']['JobLog'];
export type JobRequest = components['schemas']['JobRequest'];
export type JobResults = components['schemas']['JobResults'];
export type JobSelection = components['schemas']['JobSelection'];
export type JobSummary = components['schemas']['JobSummary'];
export type JobUsage = components['schemas']['JobUsage'];
export type JobView = components['schemas']['JobView'];
export type KernelHistory = components['schemas']['KernelHistory'];
export type LogLine = components['schemas']['LogLine'];
export type LogLines = components['schemas']['LogLines'];
export type Me = components['schemas']['Me'];
export type MemoryExcessView = components['schemas']['MemoryExcessView'];
export type NotebookList = components['schemas']['NotebookList'];
export type NotebookView = components['schemas']['NotebookView'];
export type OutputEvent = components['schemas']['OutputEvent'];
export type OutputNotice = components['schemas']['OutputNotice'];
export type OutputPage = components['schemas']['OutputPage'];
export type PauseView = components['schemas']['PauseView'];
export type Plan = components['schemas']['Plan'];
export type PlannedAssignment = components['schemas']['PlannedAssignment'];
export type PlannedCell = components['schemas']['PlannedCell'];
export type PlannedEnvironment = components['schemas']['PlannedEnvironment'];
export type PlannedFile = components['schemas']['PlannedFile'];
export type PlannedKernel = components['schemas']['PlannedKernel'];
export type PlannedSecret = components['schemas']['PlannedSecret'];
export type PlannedVariable = components['schemas']['PlannedVariable'];
export type PoolView = components['schemas']['PoolView'];
export type PrefixCell = components['schemas']['PrefixCell'];
export type PresentKind = components['schemas']['PresentKind'];
export type Preview = components['schemas']['Preview'];
export type Problem = components['schemas']['Problem'];
export type ProgressOutput = components['schemas']['Progress-Output'];
export type QueueList = components['schemas']['QueueList'];
export type QueueView = components['schemas']['QueueView'];
export type RanCell = components['schemas']['RanCell'];
export type RefusedJob = components['schemas']['RefusedJob'];
export type ResultFile = components['schemas']['ResultFile'];
export type ResultPath = components['schemas']['ResultPath'];
export type ResultVariable = components['schemas']['ResultVariable'];
export type SameFile = components['schemas']['SameFile'];
export type SendRequest = components['schemas']['SendRequest'];
export type SentSweep = components['schemas']['SentSweep'];
export type ServerStatus = components['schemas']['ServerStatus'];
export type StayingFile = components['schemas']['StayingFile'];
export type SuspensionView = components['schemas']['SuspensionView'];
export type SweepRequest = components['schemas']['SweepRequest'];
export type SweptJob = components['schemas']['SweptJob'];
export type TaskLog = components['schemas']['TaskLog'];
export type UnusedGpuView = components['schemas']['UnusedGpuView'];
export type UsagePoint = components['schemas']['UsagePoint'];
