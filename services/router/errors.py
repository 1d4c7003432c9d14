"""The router raises these errors.

MetacogError
├── UnknownStrategy          the request names a strategy that the router does not have
├── UnknownAssessor          the request names an assessor that the router does not have
├── UnknownModel             the chat request names a model that the gateway does not offer
├── MediaSourceNotAllowed    a chat names an image, sound, video or file by a URL that may not be fetched
├── DocumentNotFound         there is no such document
├── CalibrationNotFound      there is no such recalibration map
├── FileNotFound             there is no such file of this key
├── FileInUse                a batch that has not ended reads the file
├── TooManyFiles             the key has as many files as it may
├── BatchNotFound            there is no such batch of this key
├── BatchEnded               the batch has ended, so that it cannot be cancelled
├── TooManyBatches           the key has as many batches as it may
├── NotSampled               a label says that its run was drawn at random, which it was not
├── RunNotFound              kernel.errors: there is no such run for this key
├── FeedbackConflict         kernel.errors: the run has a different label already
├── RequestIdReused          chassis.idempotency: an identifier came back with another request
├── RequestInProgress        chassis.idempotency: the first request with an identifier is still running
├── PeerUnavailable          chassis.errors: another service could not be reached
└── PeerError                chassis.errors: another service returned an error, with its own code and reason
"""

from kernel.errors import Code, MetacogError


class UnknownStrategy(MetacogError):
    """The request names a strategy that the router does not have."""

    code = Code.INVALID_ARGUMENT
    reason = "UNKNOWN_STRATEGY"


class UnknownAssessor(MetacogError):
    """The request names an assessor that the router does not have."""

    code = Code.INVALID_ARGUMENT
    reason = "UNKNOWN_ASSESSOR"


class UnknownModel(MetacogError):
    """The request names a model that the gateway does not offer."""

    code = Code.NOT_FOUND
    reason = "MODEL_NOT_FOUND"


class MediaSourceNotAllowed(MetacogError):
    """A chat names an image, sound, video or file by a URL that the model server may not fetch."""

    code = Code.INVALID_ARGUMENT
    reason = "MEDIA_SOURCE_NOT_ALLOWED"


class DocumentNotFound(MetacogError):
    """There is no such document."""

    code = Code.NOT_FOUND
    reason = "DOCUMENT_NOT_FOUND"


class CalibrationNotFound(MetacogError):
    """There is no such recalibration map."""

    code = Code.NOT_FOUND
    reason = "CALIBRATION_NOT_FOUND"


class NotSampled(MetacogError):
    """A label of origin `SAMPLED` is given to a run that was not drawn at random to be labelled."""

    code = Code.FAILED_PRECONDITION
    reason = "NOT_SAMPLED"


class FileNotFound(MetacogError):
    """There is no such file of this key."""

    code = Code.NOT_FOUND
    reason = "FILE_NOT_FOUND"


class FileInUse(MetacogError):
    """A batch that has not ended reads the file."""

    code = Code.FAILED_PRECONDITION
    reason = "FILE_IN_USE"


class TooManyFiles(MetacogError):
    """The key has as many files as it may."""

    code = Code.FAILED_PRECONDITION
    reason = "TOO_MANY_FILES"


class BatchNotFound(MetacogError):
    """There is no such batch of this key."""

    code = Code.NOT_FOUND
    reason = "BATCH_NOT_FOUND"


class BatchEnded(MetacogError):
    """The batch has ended, so that it cannot be cancelled."""

    code = Code.FAILED_PRECONDITION
    reason = "BATCH_ENDED"


class TooManyBatches(MetacogError):
    """The key has as many batches, or as many that have not ended, as it may."""

    code = Code.FAILED_PRECONDITION
    reason = "TOO_MANY_BATCHES"
