// Values and statistics of Parquet columns as a filter of records uses them.
#ifndef BRAID_PIPELINE_CORPUS_PARQUET_VALUES_H_
#define BRAID_PIPELINE_CORPUS_PARQUET_VALUES_H_

#include <cstdint>

#include "formats/parquet/column_reader.h"
#include "formats/parquet/parquet_metadata.h"
#include "pipeline/corpus/record_filter.h"

namespace braid {

// Returns the type of the values of a column; kAny for one that a filter can compare with null
// only: lists, decimals, INT96.
FieldType FieldTypeOf(const ParquetColumn& column);

// Returns the value of a cell; true for one of type kAny that is not null. Valid as long as the
// cell.
FieldValue ValueOf(const ParquetColumn& column, const ParquetCell& cell);

// Returns what the statistics of a chunk of `num_rows` rows prove. Valid as long as the chunk.
FieldRange RangeOf(const ParquetColumn& column, const ParquetChunk& chunk, int64_t num_rows);

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_PARQUET_VALUES_H_
