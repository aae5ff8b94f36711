"""The recipe that made ``assets/nano``, runnable again: ``python -m training <stage>``."""
