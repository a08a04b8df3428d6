-- Whether a host slice of this category and name takes or makes the next batch: an iterator of a data loader, or an
-- annotation or function that its author named so.
CREATE OR REPLACE MACRO waits_for_input(category, name) AS
    CASE category
        WHEN 'annotation'
        THEN starts_with(name, 'enumerate(DataLoader)')
            OR starts_with(name, 'IteratorGetNext')
            OR regexp_full_match(
                name,
                '(?i)(load|loading|fetch|data|input|inputs|data[ _.-]?loader'
                || '|(data|batch|input|sample)s?[ _.-]?(wait|waiting|load|loading|fetch|fetching|next|iter|iterator|pipeline|time|prep|prepare|read)'
                || '|(wait|waiting|load|loading|fetch|get|next|read|prepare|prefetch)[ _.-]?(for[ _.-]?)?(the[ _.-]?)?(next[ _.-]?)?(train(ing)?[ _.-]?)?'
                || '(data|batch|batches|inputs?|samples?|examples?|dataset))[ _#:.-]*\d*'
            )
        WHEN 'python'
        THEN regexp_full_match(
            name,
            '\$(dataloader|data_loader|iterator_ops|dataset_iterator|numpy_iterator)\.py:\d+ (__next__|next|get_next)'
            || '|\$[^<:]+\.py:\d+ _*(wait_for|load|fetch|get|next|read|make|prepare)_(next_|train_|training_)?(data|batch|batches|inputs|samples|examples)'
        )
        ELSE starts_with(name, 'IteratorGetNext')
    END;
