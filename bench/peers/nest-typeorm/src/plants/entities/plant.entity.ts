import { Column, Entity, PrimaryColumn } from 'typeorm'

@Entity('plants')
export class Plant {
  /** TypeORM gives a bigint as a string (https://typeorm.io/docs/entity/entities#column-types). */
  @PrimaryColumn('bigint')
  id!: string

  @Column('text')
  name!: string

  @Column('text', { nullable: true })
  tag?: string
}
