"""Every `code` of a problem, and what to do about it: the page that their `type` leads to.

A test reads the sources for codes that are missing here.
"""

from typing import NamedTuple

PLACE = "/problems"


class Code(NamedTuple):
    """One code. statuses: that it comes with."""

    statuses: tuple[int, ...]
    says: str


CODES = {
    "amendment_refused": Code((409,), "The ledger does not take this change; `detail` says why."),
    "anchors_unreadable": Code(
        (503,), "The file of anchors cannot be read, so nothing is paid. An operator must mend it."
    ),
    "bad_request": Code((400,), "The request is not HTTP as this service reads it."),
    "body_too_large": Code((413,), "The body passes the limit; `detail` names it."),
    "budget_exhausted": Code(
        (409,),
        "The cost does not fit into what is left. `requested` and `remaining` tell both; `of`"
        " says if it is the dataset's budget or your allotment. Ask for less, or the admin.",
    ),
    "dataset_archived": Code((409,), "The dataset takes no new jobs."),
    "dataset_closed": Code((409,), "The dataset's ledger takes no more entries."),
    "dataset_destroyed": Code((409,), "The rows are gone; metadata and ledger stay."),
    "dataset_refreshed": Code((409,), "There is a later version, `dataset`: refresh that one."),
    "dataset_unavailable": Code(
        (409,),
        "The dataset's stored rows are missing or damaged. An admin puts them back and says so by"
        " PATCH with `available: true`.",
    ),
    "expired": Code(
        (410,), "The draws are older than this service keeps them. The job and its summary stay."
    ),
    "forbidden": Code((403,), "Your role may not do this; `detail` names those that may."),
    "idempotency_key_reused": Code(
        (422,), "The Idempotency-Key came with another body before. Take a new key."
    ),
    "internal_error": Code(
        (500,), "A fault of the service. Its log has the request's `X-Request-Id`."
    ),
    "invalid_request": Code(
        (422,), "The request is not valid. `errors` lists a JSON pointer and a message for each."
    ),
    "job_finished": Code((409,), "The job has ended; there is nothing to cancel."),
    "job_not_finished": Code((409,), "The job still waits or runs. Follow its events, or poll."),
    "job_too_large": Code((422,), "The job passes a limit of this service; `detail` names it."),
    "job_without_chain": Code(
        (409,), "The job failed, was cancelled, or is a task: it released no chain."
    ),
    "job_without_result": Code((409,), "The job is no task: it released a chain."),
    "key_not_shown_again": Code(
        (409,), "The request has made a key before, more than a day ago. Revoke it, make another."
    ),
    "last_admin": Code((409,), "Nobody could come in to undo this. Make another admin first."),
    "last_admin_key": Code((409,), "This is the last lasting key of an admin. Make another first."),
    "ledger_rewound": Code(
        (503,), "The database is older than its ledgers' anchors. An admin must accept the restore."
    ),
    "low_quality_plan": Code(
        (422,),
        "The result is not expected to be of use. `detail` says what would help; with"
        " `accept_low_quality` the job is taken all the same.",
    ),
    "malformed_upload": Code((422,), "The multipart body cannot be read; `detail` says where."),
    "method_not_allowed": Code((405,), "The address has other methods; see the `Allow` header."),
    "name_taken": Code(
        (409,), "A user, or a dataset in use that `dataset` names, has this name. Take another."
    ),
    "no_release": Code((409,), "The job ran a chain, which leaves no release to ask again."),
    "not_a_snapshot": Code((409,), "Not registered from one source, so that it cannot refresh."),
    "not_acceptable": Code((406,), "No format of `Accept` is known here; `detail` lists them."),
    "not_found": Code((404,), "It does not exist, or you may not see it."),
    "nothing_rewound": Code((409,), "No ledger is behind its anchor: there is nothing to accept."),
    "rate_limited": Code((429,), "Too many requests of one user. Wait as `Retry-After` says."),
    "request_decided": Code((409,), "The request has an answer already; `detail` says which."),
    "request_timeout": Code((408,), "The body comes too slowly."),
    "rows_seen_before": Code(
        (422,),
        "Rows or persons are those of `dataset`, and cannot share its ledger as declared. `errors`"
        " says what differs; `separate_budget` takes a reason for another budget.",
    ),
    "source_changed": Code(
        (409,), "The source was changed while it was read. Nothing was registered; try again."
    ),
    "source_unavailable": Code(
        (503,), "The source cannot be read; `detail` says why. Nothing was registered."
    ),
    "storage_full": Code((507,), "The disk of the service is full. Its operator must make room."),
    "too_long_to_plan": Code((422,), "Working this out takes longer than the service allows."),
    "too_many_jobs": Code((429,), "Too many of your jobs wait or run. Try again when some ended."),
    "too_many_cancelled": Code(
        (429,),
        "Too many of your jobs of the last hour were cancelled before they ran. Wait, and plan with"
        " `POST /v1/plans`, which books nothing.",
    ),
    "too_many_downloads": Code(
        (429,), "Too many of your downloads and free answers are under way. Let some end first."
    ),
    "too_many_keys": Code((409,), "The user has as many keys as may work. Revoke some first."),
    "too_many_plans": Code(
        (429,), "Too many of your plans and free answers wait. Try again when some are answered."
    ),
    "too_many_snapshots": Code((429,), "Snapshots of sources are under way. Let one end first."),
    "too_many_streams": Code((429,), "Too many event streams are open. Close some, or poll."),
    "too_many_requests_open": Code(
        (429,), "Too many of your access requests wait for an answer. Withdraw one first."
    ),
    "unauthenticated": Code((401,), "No key or token that lets anybody in came with the request."),
    "unavailable": Code((503,), "Something that is needed is away or busy. Try again soon."),
    "unsupported_media_type": Code((415,), "The body must have another Content-Type."),
    "versions_kept": Code(
        (503,), "The rows are unreadable, but the object store keeps versions of their ciphertext."
    ),
}

UPLOADS = {
    "ambiguous_format": "The text can be read in two ways; `errors` says what to declare.",
    "empty_file": "The file is empty.",
    "extra_column": "The file has a column that the metadata does not declare.",
    "file_too_large": "The file passes the limit.",
    "impossible_code": "No value of a file's column can equal a missing code that is declared.",
    "invalid_columns": "The declared columns cannot be used; `errors` says which.",
    "invalid_schema": "The schema file cannot be used; `errors` names lines and fields.",
    "line_too_long": "A line of the file is too long.",
    "malformed_archive": "The gzip or zip file is damaged, cut, or packed in an unusual way.",
    "malformed_csv": "The file is no CSV that can be read.",
    "malformed_parquet": "The file is no Parquet that can be read.",
    "missing_column": "A declared column is not in the file.",
    "missing_value": "A column has missing values; `errors` counts them.",
    "no_rows": "The file has no rows.",
    "not_whole": "An integer column has values that are not whole; `errors` counts them.",
    "not_a_date": "A column of dates has values that are no dates; `errors` counts them.",
    "not_a_number": "A numeric column has values that are no finite numbers; `errors` counts them.",
    "not_csv": "The file is neither CSV nor Parquet.",
    "not_utf8": "The file is not UTF-8.",
    "ragged_rows": "Lines of the file differ in their number of fields.",
    "repeated_column": "A column is there twice.",
    "several_files": "The zip file holds none or several files: pack one.",
    "too_many_rows": "The file has more rows than can be kept.",
    "undeclared_category": "A column has values of no declared category; `errors` counts them.",
    "wrong_encoding": "The text is not in the encoding that is declared or was found.",
    "wrong_type": "A column of the file has another type than is declared.",
}
CODES |= {
    code: Code((422,), f"{says} Only the admin who uploads is told.")
    for code, says in UPLOADS.items()
}


def address(code: str) -> str:
    """The `type` of a problem: a reference to where it is explained."""
    return f"{PLACE}#{code}"
