"""Find documents that are nearly the same: MinHash signatures of character n-grams, compared band by band.

Method: Broder, "On the resemblance and containment of documents" (1997), with locality-sensitive hashing as in
Leskovec, Rajaraman, Ullman, "Mining of Massive Datasets", chapter 3.
"""
