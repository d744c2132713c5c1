"""The one error a user is meant to read."""


class UserError(ValueError):
    """Bad input or an unmet need, told as a sentence: what was wrong, with which value, what to do.

    Command line and page show the text as it is; every other exception is a defect of ours.
    """
