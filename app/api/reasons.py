"""Why a job can end without a chain: codes of its `error`."""

REASONS = {
    "sampler_failed": "The sampler stopped with an error. The debit stays.",
    "storage_failed": "The service could not read the rows or store the result, through no fault of"
    " the job's. An operator must look at the log. What was paid stays paid.",
    "worker_lost": "Every worker that ran this job was lost. The debit stays.",
    "store_unavailable": "The dataset's stored rows could not be reached. The debit stays.",
    "time_limit_exceeded": "The job ran longer than this service allows. The debit stays.",
    "dataset_unavailable": "The dataset's stored rows are missing or damaged, so it takes no jobs"
    " until an admin has put them right. A job that had not begun was not charged.",
    "dataset_destroyed": "The dataset's rows were destroyed. A job that had not begun was not"
    " charged.",
    "dataset_archived": "The dataset was archived. A job that had not begun was not charged.",
    "grant_withdrawn": "The dataset is no longer open to you. A job that had not begun was not"
    " charged.",
    "key_revoked": "The key that the job was submitted with was revoked. A job that had not begun"
    " was not charged.",
    "whitening_gone": "The whitening that this job was to use again is gone. Nothing was charged.",
    "inference_failed": "The inference stopped with an error. Nothing was charged.",
    "release_gone": "What this job was to read was deleted after its time. Nothing was charged.",
    "job_outdated": "This version no longer knows what the job asks for. Submit it again;"
    " a job that had not begun was not charged.",
    "reservation_expired": "No worker was free before the reservation expired.",
}
