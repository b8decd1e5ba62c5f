"""Reports: a corpus, a tokenizer, a dataset, runs, a comparison or a work directory as one offline HTML file."""
