import { ConflictException, Injectable } from '@nestjs/common'
import { InjectRepository } from '@nestjs/typeorm'
import { QueryFailedError, type Repository } from 'typeorm'
import { CreatePlantDto } from './dto/create-plant.dto.js'
import { Plant } from './entities/plant.entity.js'

const uniqueViolation = '23505'

@Injectable()
export class PlantsService {
  constructor(@InjectRepository(Plant) private readonly plants: Repository<Plant>) {}

  async create({ id, name, tag }: CreatePlantDto) {
    try {
      // Not save(), which would update the plant that has this id.
      await this.plants.insert({ id: String(id), name, tag })
    } catch (error) {
      if (error instanceof QueryFailedError && error.driverError.code === uniqueViolation) {
        throw new ConflictException('a plant with this id exists already')
      }
      throw error
    }
    return { name, tag }
  }
}
