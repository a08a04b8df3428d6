-- One row per kernel launch that Nsight Compute profiled: a launch of another process than the traces', run several times.
CREATE TABLE ncu_launches (
    file          VARCHAR NOT NULL,  -- ncu_files.file
    launch        BIGINT NOT NULL,   -- position of the launch in the file, from 0
    ncu_id        BIGINT NOT NULL,   -- ID, as written
    process_id    BIGINT,            -- process
    process_name  VARCHAR,           -- program
    name          VARCHAR NOT NULL,  -- kernel, as written
    function_name VARCHAR,           -- function of a mangled name, such as k of _Z1kIiEvT_; NULL: the name is no such
    context       BIGINT,            -- device context
    stream        BIGINT,            -- stream
    device_label  VARCHAR,           -- number or name of the device, as written
    compute_major INTEGER,           -- compute capability
    compute_minor INTEGER,           -- compute capability
    grid_x        BIGINT,            -- launch grid; NULL: not written (Nsight Compute before 2022)
    grid_y        BIGINT,            -- launch grid
    grid_z        BIGINT,            -- launch grid
    block_x       BIGINT,            -- thread block
    block_y       BIGINT,            -- thread block
    block_z       BIGINT             -- thread block
);
