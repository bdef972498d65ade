"""The auditor: computes or bounds the privacy of any protocol from the outside."""
